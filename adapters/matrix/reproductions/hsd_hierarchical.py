"""HSD's fork of transformers: hierarchical verification of one draft, against the target, exactly.

    python hsd_hierarchical.py

fetches one file of ZhouYuxuanYX/Hierarchical-Speculative-Decoding at one commit, takes
`_speculative_sampling` out of it, and enumerates what it does with one draft, `backward` and
`clever`: every draft, every outcome of its coins, and every token that it may draw. Nothing is
sampled, and the fractions are exact. Needs torch; ends with 1 if the distribution of the text is
not the target's.

DRAFTPROOF_SOURCES may name a folder with the file, as OWNER/NAME/COMMIT/path, if there is no
network.

Two controls show that nothing else is to blame: token verification by the same function, and
hierarchical verification that caps the ratio of the whole draft as it caps those of prefixes.
"""

import ast
import itertools
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import torch

COMMIT = "ZhouYuxuanYX/Hierarchical-Speculative-Decoding/f3adf7f13e43011d49c29a9ce9d7ad79a1296343"
FILE = "transformers/generation/utils.py"
DIGEST = "087cf84329c13b6eb3d52bd6bc6f164cd4fc1798f0a390bd5a06862ad2950a71"
FUNCTION = "_speculative_sampling"

# Of one draft. The lines between the first two are replaced, too.
MASSES = "                ratio = joint_p_previous / joint_q_previous\n"
MASSES_END = "                p_next = new_p_previous * p[ind:ind + 1, :candidate_length]\n"
FIXED_MASSES = """\
                log_ratio = (torch.log(p_previous) - torch.log(q_previous)).cumsum(1)
                capped = torch.exp(log_ratio - log_ratio.cummax(1).values).unsqueeze(-1)
                p_next = capped * p[ind:ind + 1, :candidate_length]
                q_next = q[ind:ind + 1, :candidate_length]
"""
WHOLE = "            r_i = torch.rand_like(probability_ratio)\n"
FIXED_WHOLE = f"""\
            if b == 0:
                probability_ratio = capped * (p_i / q_i).unsqueeze(-1)
{WHOLE}"""

MODES = {"token": {}, "hierarchical": {"backward": True, "clever": True}}

# Rows by depth; what comes before does not matter. Behind the draft the target's row is the last.
Rows = tuple[list[list[str]], list[list[str]]]
SMALLEST = [["1/2", "1/2"]] * 3, [["1/4", "3/4"]] * 2
LONGER = (
    [["1/2", "1/4", "1/4"], ["1/8", "1/4", "5/8"], ["1/2", "1/4", "1/4"], ["1/4", "1/2", "1/4"]],
    [["1/4", "1/4", "1/2"], ["1/2", "1/4", "1/4"], ["1/8", "3/8", "1/2"]],
)


def fetched() -> str:
    own = os.environ.get("DRAFTPROOF_SOURCES")
    host = Path(own).resolve().as_uri() if own else "https://raw.githubusercontent.com"
    with urlopen(f"{host}/{COMMIT}/{FILE}", timeout=60) as answer:
        content = answer.read()
    assert sha256(content).hexdigest() == DIGEST
    return content.decode()


def function_of(source: str, names: dict[str, Any], *, fixed: bool) -> Callable[..., tuple]:
    """Return the function, which sees these names alone."""
    if fixed:
        above, below = source.split(MASSES_END)
        above, _ = above.rsplit(MASSES, 1)
        below = below.replace(WHOLE, FIXED_WHOLE, 1)
        source = above + FIXED_MASSES + below
    defined = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
    (found,) = (each for each in defined if each.name == FUNCTION)
    exec(compile(ast.Module([found], []), FILE, "exec"), names)
    return names[FUNCTION]


class Told:
    """Torch, whose coins and draws fall as they are told, and else in the first possible way."""

    def __init__(self) -> None:
        self.tell(())

    def tell(self, told: tuple[int, ...]) -> None:
        self.fallen: list[int] = []
        self.others: list[list[int]] = []
        self.weight = Fraction(1)
        self._told = told

    def __getattr__(self, name: str) -> object:
        return getattr(torch, name)

    def falls(self, chances: list[Fraction]) -> int:
        possible = [way for way, chance in enumerate(chances) if chance]
        told = self._told[len(self.fallen) :]
        way = told[0] if told else possible[0]
        self.others.append([each for each in possible if each > way])
        self.fallen.append(way)
        self.weight *= chances[way]
        return way

    def rand_like(self, _: torch.Tensor) -> "Coins":
        return Coins(self)

    def multinomial(self, weights: torch.Tensor, num_samples: int) -> torch.Tensor:
        chances = [exact(each) for each in weights.flatten()]
        assert num_samples == 1
        assert sum(chances) == 1
        return torch.tensor([[self.falls(chances)]])


class Coins:
    """Uniform numbers that are compared once, each with its threshold."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def __lt__(self, thresholds: torch.Tensor) -> torch.Tensor:
        chances = [exact(each.clamp(0, 1)) for each in thresholds.flatten()]
        low = [self._told.falls([chance, 1 - chance]) == 0 for chance in chances]
        return torch.tensor(low).view_as(thresholds)

    __le__ = __lt__


def exact(number: torch.Tensor) -> Fraction:
    """Return the fraction that a float64 stands for; it is off by some 1e-16."""
    return Fraction(number.item()).limit_denominator(10**6)


def logits(rows: list[list[Fraction]]) -> torch.Tensor:
    return torch.tensor([[[float(each) for each in row] for row in rows]]).double().log()


def law(
    verify: Callable[..., tuple],
    told: Told,
    target: list[list[Fraction]],
    draft: list[list[Fraction]],
) -> tuple[dict[tuple[int, ...], Fraction], Fraction]:
    """Return the distribution of the text, continued by the target, and how much is accepted."""
    found: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    mean = Fraction(0)
    tokens, length = range(len(target[0])), len(draft)
    for drafted in itertools.product(tokens, repeat=length):
        chance = prod(draft[depth][token] for depth, token in enumerate(drafted))
        untried: list[tuple[int, ...]] = [()] if chance else []
        while untried:
            so_far = untried.pop()
            told.tell(so_far)
            emitted, accepted, *_ = verify(
                torch.tensor([[0, *drafted]]),  # the first token comes before the draft
                logits(draft),
                length,
                logits(target),
                torch.tensor([False]),
                stop=lambda *_, **__: False,
            )
            untried += [
                (*told.fallen[:at], way)
                for at in range(len(so_far), len(told.fallen))
                for way in told.others[at]
            ]
            text = tuple(emitted[0].tolist())
            weight = chance * told.weight
            mean += weight * int(accepted)
            for more in itertools.product(tokens, repeat=length + 1 - len(text)):
                rest = prod(target[depth][each] for depth, each in enumerate(more, len(text)))
                found[text + more] += weight * rest
    return found, mean


def judged(source: str, how: str, rows: Rows, *, fixed: bool = False) -> Fraction:
    """Print the distribution of the text, and return its total variation distance."""
    told = Told()
    function = function_of(source, {"torch": told, "F": torch.nn.functional}, fixed=fixed)
    verify = partial(function, **MODES[how])
    target, draft = ([[Fraction(each) for each in row] for row in model] for model in rows)
    found, mean = law(verify, told, target, draft)
    assert sum(found.values()) == 1
    how += ", fixed" if fixed else ""
    print(f"{how}, drafts of {len(draft)}: {mean} drafted tokens are accepted on average")
    distance = Fraction(0)
    for length in range(1, len(draft) + 1):
        distance = Fraction(0)
        for text in itertools.product(range(len(target[0])), repeat=length):
            seen = sum((found[each] for each in found if each[:length] == text), Fraction(0))
            owed = prod(target[depth][token] for depth, token in enumerate(text))
            distance += abs(seen - owed) / 2
            if len(draft) == length == 2:
                print(f"  text {text}: {seen}, must be {owed}")
        print(f"  total variation distance in texts of {length}: {distance}")
    return distance


def main() -> int:
    source = fetched()
    distances = [judged(source, "hierarchical", rows) for rows in (SMALLEST, LONGER)]
    for rows in (SMALLEST, LONGER):
        judged(source, "token", rows)
    for rows in (SMALLEST, LONGER):
        judged(source, "hierarchical", rows, fixed=True)
    return int(any(distances))


if __name__ == "__main__":
    sys.exit(main())
