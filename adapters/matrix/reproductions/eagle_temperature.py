"""EAGLE: the bonus token at a temperature and with top-p, before and after the fix, exactly.

    python eagle_temperature.py [COMMIT...]

fetches one file of SafeAILab/EAGLE at two commits (or at those that are named, whose digests are
not known and not checked), and has its `evaluate_posterior` verify one drafted token of which the
target is certain: it is accepted whatever the coins say, and what follows is the bonus, whose law
the function returns. Nothing is sampled. Needs torch and transformers; ends with 1 if the law of
the last commit is not the one that the logits processor gives.

DRAFTPROOF_SOURCES may name a folder with the files, as OWNER/NAME/COMMIT/path, if there is no
network.

The control is temperature 1 without top-p, where both are correct.
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

REPOSITORY = "SafeAILab/EAGLE"
FILE = "eagle/model/utils.py"
DIGESTS = {
    "08b3e5c48bf7f22c26590d9987574bd99fa5a7c6": (
        "6be76a2ef25528c14cf50856d4c476bfb85783101dae1c2da1a085e690afe484"
    ),
    "cb7e0841fe0c206c6ed74a197ad5e2a1f13f5a2b": (
        "68dadf1977dd76624f87d0dc5ce9f840783ccaeb7554861f1206daa664367fe9"
    ),
}

# Of token 0 the target is certain; behind it, its softmax is (2/3, 1/3).
LOGITS = torch.tensor([[[0, -math.inf], [math.log(2), 0]]], dtype=torch.float64)
# What is asked for, and the law that it makes of the bonus row.
ASKED = (
    ({"temperature": 0.5}, (Fraction(4, 5), Fraction(1, 5))),
    ({"temperature": 1.0, "top_p": 0.5}, (Fraction(1), Fraction(0))),
    ({"temperature": 1.0}, (Fraction(2, 3), Fraction(1, 3))),
)


def imported(commit: str) -> ModuleType:
    own = os.environ.get("DRAFTPROOF_SOURCES")
    host = Path(own).resolve().as_uri() if own else "https://raw.githubusercontent.com"
    with urlopen(f"{host}/{REPOSITORY}/{commit}/{FILE}", timeout=60) as answer:
        content = answer.read()
    digest = sha256(content).hexdigest()
    assert DIGESTS.get(commit, digest) == digest
    module = ModuleType("utils")
    exec(compile(content.decode(), FILE, "exec"), vars(module))
    return module


def judged(commit: str) -> Fraction:
    """Print the bonus's laws beside those owed, and return the largest distance."""
    module, worst = imported(commit), Fraction(0)
    for options, owed in ASKED:
        _, accepted, last = module.evaluate_posterior(
            LOGITS,
            torch.zeros(1, 2, dtype=torch.int64),
            module.prepare_logits_processor(**options),
        )
        assert accepted == 1
        # A fraction that a float64 stands for, which is off by some 1e-16.
        found = [Fraction(each).limit_denominator(10**6) for each in last.tolist()]
        distance = sum((abs(a - b) for a, b in zip(found, owed, strict=True)), Fraction(0)) / 2
        worst = max(worst, distance)
        asked = ", ".join(f"{name} {value}" for name, value in options.items())
        print(
            f"{commit[:7]}, {asked}: bonus ({', '.join(map(str, found))}), "
            f"must be ({', '.join(map(str, owed))}): total variation distance {distance}"
        )
    return worst


def main() -> int:
    distances = [judged(commit) for commit in sys.argv[1:] or DIGESTS]
    return int(distances[-1] > 0)


if __name__ == "__main__":
    sys.exit(main())
