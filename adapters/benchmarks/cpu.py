"""The fast verifiers of one path on a CPU: block beside token, and beside others.

    python adapters/benchmarks/cpu.py [--quick] [--out FOLDER]

Three ways in: probabilities, checked as the adapter protocol asks for, and unchecked; and logits.
The others are block verification written the obvious ways (`peers`), and the token verification of
transformers. A size is made once for probabilities and once for logits, and all that takes the same
input takes turns. Peak memory is measured in processes of their own (`memory`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import click
import torch
from benchmarks.calls import OURS, WAYS, ours, theirs
from benchmarks.inputs import Size, request
from benchmarks.measuring import by_wall, document, figure, in_turn, ratio, spread, told, written
from benchmarks.memory import Unmeasured, measured
from benchmarks.plots import cpu_memory, cpu_times

TARGETS = {"block_to_token": 1.15, "peak_to_input": 1.25}
"""The goals; results have the measured figures beside them."""

# The loops over requests use no more than the rows that they read.
_LOOPS = ("listing", "transformers")


@click.command()
@click.option("--quick", is_flag=True, help="Use tiny sizes, to try the script.")
@click.option("--requests", type=click.IntRange(1), multiple=True, default=(1, 32, 256))
@click.option("--length", type=click.IntRange(1), multiple=True, default=(4, 8))
@click.option("--vocabulary", type=click.IntRange(2), multiple=True, default=(32_000, 128_256))
@click.option("--rounds", type=click.IntRange(2), default=9, show_default=True)
@click.option("--threads", type=click.IntRange(1), help="Threads of torch. [default: all cores]")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path(__file__).parent / "results")
def main(*, quick: bool, threads: int | None, seed: int, out: Path, **sizes: Any) -> None:
    """Measure time and memory on this CPU, and write them to the folder."""
    if threads is not None:
        torch.set_num_threads(threads)
    if quick:
        sizes = {"requests": (2,), "length": (2,), "vocabulary": (1000,), "rounds": 3}
    found = document("cpu", seed=seed, sizes=sizes)
    found |= {"targets": TARGETS, "rows": [], "skipped": []}
    torch.manual_seed(seed)
    for each in product(*(sizes[name] for name in ("requests", "length", "vocabulary"))):
        size = Size(*each)
        for row in times(size, rounds=sizes["rounds"], seed=seed):
            row["peak"] = _peak(row, size, seed, found["skipped"])
            found["rows"].append(row)
            click.echo(told(row, aims(row["name"])))
    written(found, out)
    (out / "cpu-times.svg").write_text(cpu_times(found), encoding="utf-8")
    (out / "cpu-memory.svg").write_text(cpu_memory(found), encoding="utf-8")


def times(size: Size, *, rounds: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what every call of a size took, each as a row of the document."""
    for logits in (False, True):
        given = request(size, seed=seed, logits=logits)
        calls = theirs(given, logits=logits)
        others = tuple(calls)
        ways = [way for way, takes_logits in WAYS.items() if takes_logits == logits]
        for way, name in product(ways, OURS):
            calls[f"{way} {name}"] = ours(name, way, given)
        seen = in_turn(calls, rounds=rounds, clock=by_wall)
        for way, name in product(ways, OURS):
            yield _row(size, way, name, seen, others)
        for name in others:
            yield _row(size, ways[0], name, {**seen, f"{ways[0]} {name}": seen[name]}, ())


def _row(
    size: Size, way: str, name: str, seen: Mapping[str, Sequence[float]], others: Sequence[str]
) -> dict[str, Any]:
    own = seen[f"{way} {name}"]
    return {
        "size": asdict(size),
        "way": way,
        "name": name,
        "seconds": spread(own),
        "to_token": ratio(own, seen[f"{way} token"]),
        "to_others": {other: ratio(own, seen[other]) for other in others},
    }


def _peak(
    row: Mapping[str, Any], size: Size, seed: int, skipped: list[dict[str, str]]
) -> float | None:
    """Return the peak memory of a row's call, None where it is not measured, and say why."""
    if row["name"] in _LOOPS:
        return None
    try:
        return figure(measured(row["way"], row["name"], size, seed=seed))
    except Unmeasured as error:
        skipped.append({"what": f"peak memory of {row['way']} {row['name']}", "reason": str(error)})
        return None


def aims(name: str) -> dict[str, float]:
    """Return what is aimed at for a verifier, by the figures of its row."""
    own = {"to_token": TARGETS["block_to_token"]} if name == "block" else {}
    return own | ({"peak": TARGETS["peak_to_input"]} if name in OURS else {})


if __name__ == "__main__":
    main()
