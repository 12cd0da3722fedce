"""EAGLE's package on PyPI: the token behind an accepted draft, as released and fixed, exactly.

    python eagle_llm.py

fetches the wheel of eagle-llm 1.2.1, imports two of its files, and has each `evaluate_posterior`
verify drafts of which the target is certain: the coins decide nothing, and what follows is the
bonus, whose distribution the function returns. Nothing is sampled. The fixes are run as controls.
Needs torch, transformers and pip; ends with 1 if a distribution of the release is wrong.
"""

import math
import subprocess
import sys
import tempfile
import zipfile
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from types import ModuleType

import torch

RELEASE = "eagle-llm==1.2.1"
TREE, BATCHED = "eagle/model/utils.py", "eagle/modelbsne1/utils.py"
FIXES = {
    TREE: (
        "            gt_logits = logits[best_candidate, accept_length - 1]\n",
        "            gt_logits = logits[best_candidate, accept_length - 1]\n"
        "            gt_logits = logits_processor(None, gt_logits[None])[0]\n",
    ),
    BATCHED: (
        "if adjustflag and accept_length != candidates.shape[1]:",
        "if adjustflag and accept_length != candidates.shape[2]:",
    ),
}
SURE = -math.inf
LAST = (Fraction(2, 3), Fraction(1, 3))


def imported(folder: Path, name: str, *, fixed: bool) -> ModuleType:
    """Return a module of the wheel, with one line of it fixed or as it was released."""
    source = (folder / name).read_text()
    if fixed:
        old, new = FIXES[name]
        assert source.count(old) == 1
        source = source.replace(old, new)
    module = ModuleType(name)
    exec(compile(source, name, "exec"), vars(module))
    return module


def asked(module: ModuleType, temperature: float) -> list[Fraction]:
    """Return the bonus of a drafted token that the target is sure of, at a temperature.

    Two tokens, one of them drafted, token 0. Behind it the target's logits are (log 2, 0).
    """
    _, accepted, law = module.evaluate_posterior(
        torch.tensor([[[0, SURE], [math.log(2), 0]]], dtype=torch.float64),
        torch.zeros(1, 2, dtype=torch.int64),
        module.prepare_logits_processor(temperature=temperature),
        torch.ones(1, 2),
        [torch.tensor([[1.0, 0.0]])],
        [[0, 0]],
        torch.zeros(1, 2, dtype=torch.int64),
        [[[], []]],
    )
    assert accepted == 1
    return fractions(law)


def of_siblings(module: ModuleType, siblings: tuple[int, ...]) -> list[Fraction]:
    """Return the bonus behind token 1 of three siblings, in the order in which they are drawn.

    Three tokens, which the draft gives 1/3 each. The target is sure of token 1, and behind it of
    token 0.
    """
    tree = module.generate_tree_buffers([[0], [1], [2]], device="cpu")
    # A node is drafted ten tokens, of which the tree has the first three.
    drafted = torch.tensor([[*siblings, *[0] * 7]])
    chances = torch.tensor([[1 / 3, 1 / 2, 1.0, *[0.0] * 7]])
    processor = module.prepare_logits_processor(temperature=1.0)
    candidates, left, nodes = module.generate_candidates(
        (drafted, chances),
        tree["tree_indices"],
        tree["retrieve_indices"],
        torch.zeros(1, 1, dtype=torch.int64),
        processor,
    )
    rows = torch.tensor([[SURE, 0, SURE], [0, SURE, SURE]])
    _, accepted, law = module.evaluate_posterior(
        rows.expand(1, 3, 2, 3),
        candidates,
        processor,
        left,
        [torch.full((1, 1, 3), 1 / 3)],
        tree["p_indices"],
        nodes,
        tree["b_indices"],
        [False],
    )
    assert accepted == [1]
    return fractions(law[0])


def fractions(law: torch.Tensor) -> list[Fraction]:
    # A fraction that a float stands for, which is off by its rounding.
    return [Fraction(each).limit_denominator(1000) for each in law.tolist()]


def shown(law: list[Fraction]) -> str:
    return f"({', '.join(map(str, law))})"


def distance(law: list[Fraction], owed: tuple[Fraction, ...]) -> Fraction:
    return sum((abs(a - b) for a, b in zip(law, owed, strict=True)), Fraction(0)) / 2


def main() -> int:
    worst = Fraction(0)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", made, RELEASE],
            check=True,
        )
        zipfile.ZipFile(next(folder.glob("*.whl"))).extractall(folder)
        for fixed in (False, True):
            print(f"{RELEASE}, {'fixed' if fixed else 'as released'}")
            tree = imported(folder, TREE, fixed=fixed)
            for temperature, owed in ((1.0, LAST), (0.5, (Fraction(4, 5), Fraction(1, 5)))):
                law = asked(tree, temperature)
                off = distance(law, owed)
                print(
                    f"  {TREE}, temperature {temperature}: bonus {shown(law)}, "
                    f"must be {shown([*owed])}: total variation distance {off}"
                )
                worst = max(worst, off if not fixed else 0)
            batched = imported(folder, BATCHED, fixed=fixed)
            mean, owed = Fraction(0), (Fraction(1), Fraction(0), Fraction(0))
            for siblings in permutations(range(3)):
                law = of_siblings(batched, siblings)
                mean += distance(law, owed) / 6
                print(f"  {BATCHED}, siblings {siblings}: bonus {shown(law)}, must be (1, 0, 0)")
            print(f"  {BATCHED}: total variation distance {mean} on average over the drafts")
            worst = max(worst, mean if not fixed else 0)
    return int(worst > 0)


if __name__ == "__main__":
    sys.exit(main())
