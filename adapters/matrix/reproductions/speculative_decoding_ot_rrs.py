"""Speculative_decoding_OT: siblings drawn with replacement, against the target's law, exactly.

    python speculative_decoding_ot_rrs.py

fetches one file of MasterGodzilla/Speculative_decoding_OT at one commit, and enumerates what its
`evaluate_posterior` does in mode RRS: every draft, and every way in which its coins may fall. A
coin is an object that says yes with the probability with which the code says that it does; nothing
is sampled, and the fractions are exact. Needs torch and transformers; ends with 1 if the law of
the text is not the target's.

DRAFTPROOF_SOURCES may name a folder with the file, as OWNER/NAME/COMMIT/path, if there is no
network.

Two controls show that nothing else is to blame: mode RRS_wo_replacement with siblings drawn
without replacement, and mode RRS where nodes, not tokens, are told apart.
"""

import itertools
import os
import sys
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from hashlib import sha256
from math import prod
from pathlib import Path
from types import ModuleType, SimpleNamespace
from urllib.request import urlopen

import torch

COMMIT = "MasterGodzilla/Speculative_decoding_OT/7d592b70e954bb1fb48516a5628f9c3439645464"
FILE = "EAGLE/eagle/model/utils.py"
DIGEST = "bd15bf1af59d99b19409349e71abb53ccd7b1c80338a6085ffa66584006363ee"

RRS = "elif mode == 'RRS_wo_replacement' or mode == 'RRS':"
SEEN = "if xi in candidates_set or xi == -1:"
ADDED = "candidates_set.append(xi)"
NODE = "node = (p_indices[j][i], len(b_indices[j][i])) if mode == 'RRS' else xi"

# Rows by depth; what comes before does not matter. Behind the draft the target's row is the last.
Rows = list[list[Fraction]]
SMALLEST = [["0", "3/4", "1/4"], ["1", "0", "0"]], [["1/2", "1/2", "0"]]
DEEPER = (
    [["0", "3/4", "1/4"], ["1/8", "1/4", "5/8"], ["1/2", "1/4", "1/4"]],
    [["1/2", "1/2", "0"], ["1/2", "1/4", "1/4"]],
)


def imported(*, fixed: bool) -> ModuleType:
    own = os.environ.get("DRAFTPROOF_SOURCES")
    host = Path(own).resolve().as_uri() if own else "https://raw.githubusercontent.com"
    with urlopen(f"{host}/{COMMIT}/{FILE}", timeout=60) as answer:
        content = answer.read()
    assert sha256(content).hexdigest() == DIGEST
    source = content.decode()
    if fixed:
        head, tail = source.split(RRS)
        tail = tail.replace(SEEN, f"{NODE}\n{' ' * 24}if node in candidates_set or xi == -1:", 1)
        tail = tail.replace(ADDED, "candidates_set.append(node)", 1)
        source = head + RRS + tail
    module = ModuleType("utils")
    exec(compile(source, FILE, "exec"), vars(module))
    return module


class Coins:
    """What stands for the module `random`: its numbers fall as they are told, then low."""

    def __init__(self, told: tuple[bool, ...]) -> None:
        self.fallen: list[bool] = []
        self.could_be_high: list[bool] = []
        self.weight = Fraction(1)
        self._told = told

    def random(self) -> "Coins":
        return self

    def __le__(self, threshold: torch.Tensor) -> bool:
        chance = exact(torch.clamp(threshold, 0, 1))
        told = self._told[len(self.fallen) :]
        is_low = told[0] if told else chance > 0
        self.fallen.append(is_low)
        self.could_be_high.append(is_low and chance < 1)
        self.weight *= chance if is_low else 1 - chance
        return is_low


def exact(number: torch.Tensor) -> Fraction:
    """Return the fraction that a float64 stands for; it is off by some 1e-16."""
    return Fraction(number.item()).limit_denominator(10**6)


def drafts(rows: Rows, width: int, *, replaced: bool) -> Iterator[tuple]:
    """Return every tree of drafts, as siblings and their chances node by node."""

    def siblings(row: list[Fraction]) -> Iterator[tuple[tuple[int, ...], list[Fraction]]]:
        for drawn in itertools.product(range(len(row)), repeat=width):
            left, chances = Fraction(1), []
            for at, token in enumerate(drawn):
                fresh = replaced or token not in drawn[:at]
                chances.append(row[token] / left if fresh and left else Fraction(0))
                left -= 0 if replaced else row[token]
            if all(chances):
                yield drawn, chances

    nodes = (list(siblings(row)) for depth, row in enumerate(rows) for _ in range(width**depth))
    return itertools.product(*nodes)


def law(
    module: ModuleType, mode: str, target: Rows, draft: Rows
) -> dict[tuple[int, ...], Fraction]:
    """Return the law of the text, as long as the draft and one more, continued by the target."""
    depths = range(1, len(draft) + 1)
    nodes = [list(node) for depth in depths for node in itertools.product(range(2), repeat=depth)]
    buffers = module.generate_tree_buffers(nodes, device="cpu")
    processor = module.prepare_logits_processor(temperature=1.0)
    logits = torch.tensor([[float(each) for each in row] for row in target]).double().log()
    found: Counter = Counter()
    for tree in drafts(draft, 2, replaced=mode == "RRS"):
        drafted = prod(chance for _, chances in tree for chance in chances)
        candidates, chances, flat = module.generate_candidates(
            (
                torch.tensor([[drawn for drawn, _ in tree]]),
                torch.tensor([[float(c) for c in each] for _, each in tree]).double(),
            ),
            buffers["tree_indices"],
            buffers["retrieve_indices"],
            torch.zeros(1, 1, dtype=torch.int64),
            processor,
        )
        rows = [
            torch.tensor([[float(each) for each in row]] * 2**depth).double()
            for depth, row in enumerate(draft)
        ]
        untried: list[tuple[bool, ...]] = [()]
        while untried:
            told = untried.pop()
            coins = Coins(told)
            module.random = SimpleNamespace(random=coins.random)
            best, accepted, last = module.evaluate_posterior(
                logits.expand(len(candidates), -1, -1),
                candidates,
                processor,
                chances,
                rows,
                buffers["p_indices"],
                flat,
                buffers["b_indices"],
                mode=mode,
            )
            # A coin that was not told, and fell low, falls high in another run.
            untried += [
                (*coins.fallen[:at], False)
                for at in range(len(told), len(coins.fallen))
                if coins.could_be_high[at]
            ]
            text = tuple(candidates[best, 1 : accepted + 1].tolist())
            for token in range(len(target[0])):
                weight = drafted * coins.weight * exact(last[token])
                for more in itertools.product(range(len(target[0])), repeat=len(draft) - accepted):
                    rest = prod(
                        target[depth][each] for depth, each in enumerate(more, accepted + 1)
                    )
                    found[*text, token, *more] += weight * rest
    return found


def judged(module: ModuleType, mode: str, rows: tuple, how: str) -> Fraction:
    """Print the law of the text beside the target's, and return their total variation distance."""
    target, draft = ([[Fraction(each) for each in row] for row in model] for model in rows)
    found = law(module, mode, target, draft)
    assert sum(found.values()) == 1
    print(f"mode {mode}{how}, drafts of {len(draft)}:")
    for length in range(1, len(draft) + 1):
        distance = Fraction(0)
        for text in itertools.product(range(len(target[0])), repeat=length):
            seen = sum((found[each] for each in found if each[:length] == text), Fraction(0))
            owed = prod(target[depth][token] for depth, token in enumerate(text))
            distance += abs(seen - owed) / 2
            if seen != owed or len(draft) == 1:
                print(f"  text {text}: {seen}, must be {owed}")
        print(f"  total variation distance in texts of {length}: {distance}")
    return distance


def main() -> int:
    module, fixed = imported(fixed=False), imported(fixed=True)
    distances = [judged(module, "RRS", rows, "") for rows in (SMALLEST, DEEPER)]
    for rows in (SMALLEST, DEEPER):
        judged(module, "RRS_wo_replacement", rows, "")
    for rows in (SMALLEST, DEEPER):
        judged(fixed, "RRS", rows, ", fixed")
    return int(distances[0] > 0)


if __name__ == "__main__":
    sys.exit(main())
