"""Speculative_decoding_OT: the bonus token at a temperature and with top-p, exactly.

    python speculative_decoding_ot_temperature.py

fetches one file of MasterGodzilla/Speculative_decoding_OT at one commit, and has its
`evaluate_posterior` verify one drafted token of which the target is certain: it is accepted
whatever the coins say, and what follows is the bonus, whose law the function returns. Nothing is
sampled. Needs torch and transformers; ends with 1 if that law is not the one that the logits
processor gives.

DRAFTPROOF_SOURCES may name a folder with the file, as OWNER/NAME/COMMIT/path, if there is no
network.

Two controls show that nothing else is to blame: temperature 1 without top-p, and the bonus row
passed through the processor, as the row of every drafted token is.
"""

import math
import os
import sys
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from urllib.request import urlopen

import torch

COMMIT = "MasterGodzilla/Speculative_decoding_OT/7d592b70e954bb1fb48516a5628f9c3439645464"
FILE = "EAGLE/eagle/model/utils.py"
DIGEST = "bd15bf1af59d99b19409349e71abb53ccd7b1c80338a6085ffa66584006363ee"

BONUS = "            gt_logits = logits[best_candidate, accept_length - 1]\n"
FIXED = (
    "            gt_logits = logits[best_candidate, accept_length - 1][None]\n"
    "            gt_logits = logits_processor(None, gt_logits)[0]\n"
)

# Of token 0 the target is certain; behind it, its softmax is (2/3, 1/3).
LOGITS = torch.tensor([[[0, -math.inf], [math.log(2), 0]]], dtype=torch.float64)
MODES = ("RRS", "RRS_wo_replacement", "spechub")
# What is asked for, and the law that it makes of the bonus row.
ASKED = (
    ({"temperature": 0.5}, (Fraction(4, 5), Fraction(1, 5))),
    ({"temperature": 1.0, "top_p": 0.5}, (Fraction(1), Fraction(0))),
    ({"temperature": 1.0}, (Fraction(2, 3), Fraction(1, 3))),
)


def imported(*, fixed: bool) -> ModuleType:
    own = os.environ.get("DRAFTPROOF_SOURCES")
    host = Path(own).resolve().as_uri() if own else "https://raw.githubusercontent.com"
    with urlopen(f"{host}/{COMMIT}/{FILE}", timeout=60) as answer:
        content = answer.read()
    assert sha256(content).hexdigest() == DIGEST
    source = content.decode()
    if fixed:
        assert source.count(BONUS) == 1
        source = source.replace(BONUS, FIXED)
    module = ModuleType("utils")
    exec(compile(source, FILE, "exec"), vars(module))
    return module


def bonus(module: ModuleType, mode: str, options: dict[str, float]) -> tuple[Fraction, ...]:
    """Return the law of the bonus behind the drafted token 0."""
    processor = module.prepare_logits_processor(**options)
    buffers = module.generate_tree_buffers([[0]], device="cpu")
    tokens, chances = torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, 1)
    candidates, probabilities, tree = module.generate_candidates(
        (tokens, chances), buffers["tree_indices"], buffers["retrieve_indices"], tokens, processor
    )
    _, accepted, last = module.evaluate_posterior(
        LOGITS,
        candidates,
        processor,
        probabilities,
        [torch.tensor([[1.0, 0.0]], dtype=torch.float64)],
        buffers["p_indices"],
        tree,
        buffers["b_indices"],
        mode=mode,
    )
    assert accepted == 1
    # A fraction that a float64 stands for, which is off by some 1e-16.
    return tuple(Fraction(each).limit_denominator(10**6) for each in last.tolist())


def judged(module: ModuleType, how: str) -> Fraction:
    """Print the bonus's laws beside those owed, and return the largest distance."""
    worst = Fraction(0)
    for mode in MODES:
        for options, owed in ASKED:
            found = bonus(module, mode, options)
            distance = sum((abs(a - b) for a, b in zip(found, owed, strict=True)), Fraction(0)) / 2
            worst = max(worst, distance)
            asked = ", ".join(f"{name} {value}" for name, value in options.items())
            print(
                f"{mode}{how}, {asked}: bonus ({', '.join(map(str, found))}), "
                f"must be ({', '.join(map(str, owed))}): total variation distance {distance}"
            )
    return worst


def main() -> int:
    worst = judged(imported(fixed=False), "")
    judged(imported(fixed=True), ", fixed")
    return int(worst > 0)


if __name__ == "__main__":
    sys.exit(main())
