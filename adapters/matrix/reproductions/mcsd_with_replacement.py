"""MCSD: siblings drawn with replacement keep the target's law, but equal ones are not merged.

    python mcsd_with_replacement.py

fetches one file of NJUNLP/MCSD at one commit, and enumerates what `BatchStrategy.verify` does with
the rule `_MCSSwReplacement`: every draft, and every way in which its coins may fall. A coin is an
object that says yes with the probability with which the code says that it does; nothing is
sampled, and the fractions are exact. Needs torch and transformers. What it shows is no fault: it
ends with 0, and with 1 if the law is not the target's, or if as many tokens are accepted as could
be.

DRAFTPROOF_SOURCES may name a folder with the file, as OWNER/NAME/COMMIT/path, if there is no
network.

What could be is shown by the same code, in which the siblings that are tried after a text are
those of all paths that begin with it.
"""

import itertools
import os
import sys
from collections import Counter
from fractions import Fraction
from hashlib import sha256
from math import prod
from pathlib import Path
from types import ModuleType, SimpleNamespace
from urllib.request import urlopen

import torch

COMMIT = "NJUNLP/MCSD/8aadd6501a9e987ba5fca6cc8f9ad5949e480ec7"
FILE = "MCSD/inference/strategies.py"
DIGEST = "31cd5544b49c0776e910ee9590be25760b8a67b77eae91256d67df833638762b"

MERGES = (
    (
        """\
            verify_batch_ids = [
                alive_group_id + group_offset * self.reversed_prod_size[depth]
                for group_offset in range(self.k_config[depth])
            ]
""",
        """\
            text = unverified_input_ids[:, :depth]
            is_same = (text == text[alive_group_id]).all(1)
            verify_batch_ids = [
                path
                for path in range(0, batch_size, self.reversed_prod_size[depth])
                if is_same[path]
            ]
""",
    ),
    (
        "cand_probs_idx = accept_idx_bias + cand_probs_idx * self.k_config[depth]",
        "cand_probs_idx = alive_group_id // self.reversed_prod_size[depth]",
    ),
)

# The tree's widths, and rows by depth; what comes before does not matter.
CASES = (
    ((2, 1), (("1/2", "1/2"), ("1", "0"), ("1/2", "1/2")), (("1/2", "1/2"), ("1/2", "1/2"))),
    ((2, 2), (("1/2", "1/2"), ("7/8", "1/8"), ("1/2", "1/2")), (("1/2", "1/2"), ("1/8", "7/8"))),
)


def imported(*, merged: bool) -> ModuleType:
    own = os.environ.get("DRAFTPROOF_SOURCES")
    host = Path(own).resolve().as_uri() if own else "https://raw.githubusercontent.com"
    with urlopen(f"{host}/{COMMIT}/{FILE}", timeout=60) as answer:
        content = answer.read()
    assert sha256(content).hexdigest() == DIGEST
    source = content.decode().replace("\r\n", "\n")
    for stands, better in MERGES if merged else ():
        assert source.count(stands) == 1
        source = source.replace(stands, better)
    module = sys.modules["strategies"] = ModuleType("strategies")
    exec(compile(source, FILE, "exec"), vars(module))
    return module


class Noise:
    """Torch, whose coins fall as they are told, then low, and which tells what it draws from."""

    def __init__(self, told: tuple[bool, ...]) -> None:
        self.fallen: list[bool] = []
        self.could_be_high: list[bool] = []
        self.weight = Fraction(1)
        self.row = torch.empty(0)
        self._told = told

    def __getattr__(self, name: str) -> object:
        return getattr(torch, name)

    def rand(self, *_: object, **__: object) -> "Noise":
        return self

    def __le__(self, threshold: torch.Tensor) -> bool:
        chance = exact(torch.clamp(threshold, 0, 1))
        told = self._told[len(self.fallen) :]
        is_low = told[0] if told else chance > 0
        self.fallen.append(is_low)
        self.could_be_high.append(is_low and chance < 1)
        self.weight *= chance if is_low else 1 - chance
        return is_low

    def multinomial(self, row: torch.Tensor, num_samples: int) -> torch.Tensor:
        """Return a token that is not drawn: the row says all."""
        assert num_samples == 1
        self.row = row
        return torch.zeros(1, dtype=torch.int64)


def exact(number: torch.Tensor) -> Fraction:
    """Return the fraction that a float64 stands for; it is off by some 1e-16."""
    return Fraction(number.item()).limit_denominator(10**6)


def tensor(rows: tuple, count: int) -> torch.Tensor:
    """Return rows as often as is asked: [count, depths, V]."""
    table = torch.tensor([[float(Fraction(each)) for each in row] for row in rows])
    return table.double().repeat(count, 1, 1)


def judged(how: str, widths: tuple, target: tuple, draft: tuple, *, merged: bool) -> tuple:
    """Print, and return, the law's distance from the target's and how many tokens are accepted."""
    module, length, leaves = imported(merged=merged), len(widths), prod(widths)
    below = [prod(widths[depth + 1 :]) for depth in range(length)]
    counts = [leaves // each for each in below]
    logits = tensor(target, leaves).log()
    model = SimpleNamespace(
        model=lambda **_: SimpleNamespace(last_hidden_state=logits, past_key_values=()),
        lm_head=lambda rows: rows,
    )
    found: Counter = Counter()
    mean = Fraction(0)
    for nodes in itertools.product(*(itertools.product(range(2), repeat=n) for n in counts)):
        chance = prod(
            Fraction(draft[depth][token]) for depth, level in enumerate(nodes) for token in level
        )
        levels = [torch.tensor(level) for level in nodes]
        paths = torch.stack([level.repeat_interleave(leaves // len(level)) for level in levels], 1)
        untried: list[tuple[bool, ...]] = [()]
        while untried:
            told = untried.pop()
            noise = module.torch = Noise(told)
            strategy = SimpleNamespace(
                acceptance_check=module._MCSSwReplacement,
                k_config=widths,
                max_draft_len=length,
                reversed_prod_size=below,
                target_model=model,
                target_model_device="cpu",
                target_model_temp=1,
            )
            rows = [tensor(draft, leaves)[:, depth] for depth in range(length)]
            output = module.BatchStrategy.verify(strategy, paths, None, [], rows)
            untried += [
                (*noise.fallen[:at], False)
                for at in range(len(told), len(noise.fallen))
                if noise.could_be_high[at]
            ]
            accepted = output.acceptance_count
            weight = chance * noise.weight
            mean += weight * accepted
            text = tuple(output.sequences[0, :-1].tolist())
            # What follows is drawn from the row; the target continues it.
            for more in itertools.product(range(2), repeat=length - accepted + 1):
                behind = enumerate(more[1:], accepted + 1)
                rest = prod(Fraction(target[i][token]) for i, token in behind)
                rest *= exact(noise.row[more[0]])
                found[*text, *more] += weight * rest
    assert sum(found.values()) == 1
    owed = {
        text: prod((Fraction(target[depth][token]) for depth, token in enumerate(text)))
        for text in itertools.product(range(2), repeat=length + 1)
    }
    distance = sum((abs(found[text] - owed[text]) for text in owed), Fraction(0)) / 2
    print(
        f"  {how}: {mean} = {float(mean):.4f} drafted tokens are accepted on average, "
        f"total variation distance {distance}"
    )
    return distance, mean


def main() -> int:
    is_shown = True
    for widths, target, draft in CASES:
        rows = [" ".join(f"({', '.join(row)})" for row in each) for each in (target, draft)]
        print(f"widths {widths}, the target's rows {rows[0]}, the draft's {rows[1]}")
        distance, mean = judged("as it is", widths, target, draft, merged=False)
        other, more = judged("equal siblings merged", widths, target, draft, merged=True)
        is_shown &= distance == other == 0 and mean < more
    return int(not is_shown)


if __name__ == "__main__":
    sys.exit(main())
