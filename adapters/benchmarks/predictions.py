"""What a GPU is expected to show, written down before it is measured.

    python adapters/benchmarks/predictions.py

writes `results/predicted.json`: the time of a call, and its share of what a copy reaches, for each
card, size, dtype, verifier and kind of rows. `make gpu` compares them with what it measures.

A call is a row of launches, each of which waits for the one before:

    time = sum over launches of (launch + chain + moved / bandwidth + exits)

* *bandwidth*: that of a copy, 90 % of what NVIDIA's data sheets name (3.35 TB/s for the H100 SXM,
  4.8 TB/s for the H200). Others' copies there have been seen at 3.0 and 4.3 TB/s, bytes read and
  written, through torch. By Little's law it is reached only with bandwidth x 700 ns in flight,
  2.1 MB on an H100; a program has one tile of 4096 numbers in flight, so fewer programs than that
  are as much slower.
* *moved*: what `traffic.py` counts, at V = 32,000 with 64 requests, of several paths 8 or 16, and
  seed 0 (`READS`): every row once by *stats*, from logits alone, and then open rows. Open rows are
  the same share at other V, and are read from memory, though small inputs stay in the cache. What
  one launch has written is in the cache of the next, and costs no bandwidth.
* *chain*: loads that wait for each other, counted in `kernels/pipeline.py`: 700 ns for memory and
  250 ns for the cache (L2), both near what microbenchmarks of Hopper report (arXiv 2402.13499), and
  300 ns for the arithmetic behind them, 900 ns in *finish*, which has running sums in float64.
* *exits*: *masses* starts a program for every piece of every row that could be open. One of a row
  that is not loads one number and ends: assumed 800 ns, of eight at a time on each of 132
  multiprocessors (64 registers and 128 threads each).
* *launch*: 1.5 microseconds from one kernel to the next; eager, with the queue full, no launch
  takes less than 5 microseconds. Both are assumed. The host's own time is not predicted.

* *ranks*: multi-path verification ranks the tokens of 1.5 rows of a request, in one program of 2048
  tokens at a time: 17 merges of runs, where each token's place is found by up to 17 loads that wait
  for each other, half of them for the cache of the multiprocessor (30 ns), half for L2. A
  multiprocessor has one such program at a time. *select* goes down L positions, of which each waits
  for its tokens' logits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks.inputs import Size
from benchmarks.measuring import figure

FILE = Path(__file__).parent / "results" / "predicted.json"


@dataclass(frozen=True)
class Card:
    """A GPU, by what its data sheet says."""

    model: str
    """What is in its maker's name for it, and not in those of cards with other memory."""
    nominal: float
    """Bytes per second."""
    multiprocessors: int

    @property
    def copy(self) -> float:
        """Bytes per second that a large copy reads and writes."""
        return _COPIED * self.nominal


CARDS = {
    "H100": Card("H100 80GB HBM3", 3.35e12, 132),
    "H200": Card("H200", 4.8e12, 132),
}

REQUESTS, LENGTHS, VOCABULARIES = (1, 16, 64, 256), (3, 5, 8), (128_256, 262_144)
ITEMS = {"float32": 4, "bfloat16": 2}
DRAFTS = {"token": 1, "block": 1, "multipath_block": 4}

READS = {
    ("token", 3): 0.281,
    ("token", 5): 0.195,
    ("token", 8): 0.132,
    ("block", 3): 0.354,
    ("block", 5): 0.344,
    ("block", 8): 0.218,
    ("multipath_block", 3): 0.272,
    ("multipath_block", 5): 0.310,
    ("multipath_block", 8): 0.274,
}
"""How many times the rows are read behind *stats*, by the verifier and L."""

_COPIED = 0.9
_MEMORY, _CACHE, _ARITHMETIC, _SCANS = 700e-9, 250e-9, 300e-9, 900e-9
_EXIT, _RESIDENT = 800e-9, 8
_LAUNCH, _EAGER = 1.5e-6, 5e-6
_TILE, _PIECES = 4096, 64
"""As in `kernels/launch.py`."""

_CHAINS = {
    # Where a request begins; then its tile.
    "stats": 2 * _MEMORY + _ARITHMETIC,
    # Where a request begins, its tokens, their logits; and what *stats* wrote.
    "decide": 3 * _MEMORY + _CACHE + _ARITHMETIC,
    # Which rows are open, and where; then a tile.
    "masses": _MEMORY + 2 * _CACHE + _ARITHMETIC,
    # Which rows are open, coins, masses twice, where a row is, one tile.
    "finish": 6 * _CACHE + _SCANS,
}

_RANKED, _MERGED, _NEAR = 1.5, 2048, 30e-9


@dataclass(frozen=True)
class Work:
    """A call: a verifier, its rows, and whether they are logits."""

    name: str
    size: Size
    dtype: str
    logits: bool

    @property
    def bytes(self) -> int:
        """Those of the rows of all paths."""
        return DRAFTS[self.name] * self.size.numbers * ITEMS[self.dtype]


def seconds(card: Card, work: Work, *, graphed: bool) -> float:
    """Return the time that a call is predicted to take."""
    least = 0.0 if graphed else _EAGER
    return sum(max(_LAUNCH + each, least) for each in steps(card, work))


def steps(card: Card, work: Work) -> list[float]:
    """Return the seconds of each launch of a call, from its start to its end."""
    size, tile = work.size, _tile(work.size.vocabulary)
    pieces = ceil(size.vocabulary / tile)
    slots = size.requests * (size.length + 1) * DRAFTS[work.name]
    rows = size.requests * (2 * size.length + 1) * DRAFTS[work.name]
    open_rows = READS[work.name, size.length]
    in_flight = tile * ITEMS[work.dtype]

    def moved(share: float) -> float:
        reached = min(1.0, share * rows * pieces * in_flight / (card.copy * _MEMORY))
        return share * work.bytes / (card.copy * reached)

    exits = slots * pieces * _EXIT / (card.multiprocessors * _RESIDENT)
    own = [_CHAINS["stats"] + moved(1)] if work.logits else []
    if DRAFTS[work.name] == 1:
        masses = _CHAINS["masses"] + moved(open_rows) + exits
        return [*own, _CHAINS["decide"], masses, _CHAINS["finish"]]
    # Of one path's rows, not of all.
    exits /= DRAFTS[work.name]
    select = _CHAINS["decide"] + size.length * (_MEMORY + _CACHE + _ARITHMETIC)
    decide = size.length * _CACHE + _CHAINS["masses"]
    finish = ceil(size.requests / card.multiprocessors) * _RANKED * _ranking(size.vocabulary)
    weigh = _CHAINS["masses"] + moved(open_rows) + exits
    return [*own, select, weigh, decide, _CHAINS["finish"] + finish]


def _ranking(vocabulary: int) -> float:
    """Return the seconds in which one program ranks a row."""
    levels = (vocabulary - 1).bit_length()
    waits = levels * (levels + 1) / 2 * (_CACHE + _NEAR) / 2
    return ceil(vocabulary / _MERGED) * waits


def _tile(vocabulary: int) -> int:
    return max(_TILE, 1 << (ceil(vocabulary / _PIECES) - 1).bit_length())


def predicted(card: Card, work: Work) -> dict[str, float]:
    """Return the time of a call in a CUDA graph and eager, and its share of a copy's bandwidth."""
    graphed, eager = (seconds(card, work, graphed=each) for each in (True, False))
    share = work.bytes / graphed / card.copy
    return {name: figure(value) for name, value in
            (("graphed", graphed), ("eager", eager), ("share", share))}  # fmt: skip


def every() -> Iterator[Work]:
    """Yield the calls of which there is a prediction."""
    for name, logits, dtype in product(DRAFTS, (True, False), ITEMS):
        for vocabulary, length, requests in product(VOCABULARIES, LENGTHS, REQUESTS):
            # Engines that take probabilities take float32.
            if logits or dtype == "float32":
                yield Work(name, Size(requests, length, vocabulary), dtype, logits)


def document() -> Mapping[str, Any]:
    """Return all predictions, with what a card is taken for."""
    return {
        "cards": {name: {**asdict(card), "copy": card.copy} for name, card in CARDS.items()},
        "reads": {f"{name} L={length}": mean for (name, length), mean in READS.items()},
        "rows": [
            {
                "card": name,
                "verifier": work.name,
                "drafts": DRAFTS[work.name],
                "size": asdict(work.size),
                "dtype": work.dtype,
                "given": "logits" if work.logits else "probabilities",
                "bytes": work.bytes,
                **predicted(card, work),
            }
            for name, card in CARDS.items()
            for work in every()
        ],
    }


def written() -> str:
    """Return the text of the file, a line for each prediction."""
    found = document()
    rows = ",\n    ".join(json.dumps(row) for row in found["rows"])
    head = json.dumps({**found, "rows": []}, indent=2)
    return head.replace('"rows": []', f'"rows": [\n    {rows}\n  ]') + "\n"


def table() -> str:
    """Return the predictions of the usual size as the page of the fast verifiers shows them."""
    lines = ["| card, verifier | " + " | ".join(f"B = {n}" for n in REQUESTS)]
    lines.append("|---" * len(REQUESTS) + "|---")
    for (name, card), verifier in product(CARDS.items(), DRAFTS):
        told = []
        for requests in REQUESTS:
            work = Work(verifier, Size(requests, 5, VOCABULARIES[0]), "bfloat16", logits=True)
            own = predicted(card, work)
            told.append(f"{1e6 * own['graphed']:.0f} µs, {100 * own['share']:.0f} %")
        lines.append(f"| {name}, `{verifier}` | " + " | ".join(told))
    return "\n".join(f"{line} |" for line in lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
    print(f"written to {FILE}")
