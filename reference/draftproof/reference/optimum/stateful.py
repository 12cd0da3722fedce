"""The largest E[accepted length] of any verifier, later targets being free to be modified.

An iteration may then leave any law of the later text, so a verifier is any coupling of the drafts
with a text of the target. With A(x) the probability that the accepted tokens start with x, a prefix
of 1..L tokens:

    maximise    sum of A(x)
    subject to  A(x) <= p(x)     the accepted tokens begin a text of the target
                A(x) <= Q'(x)    the accepted tokens are on one drafted path: see `length`
                A(x) >= 0.

**No verifier has more:** both bounds are necessary for any accepted tokens.

**Some verifier has this value.** At the optimum A = min(p, Q'). Select a path by Q', and draw the
text from the coupling of Q' and p that shares a prefix x with probability min(p(x), Q'(x)) for all
x at once: such a coupling exists, since the sum of min(p(xy), Q'(xy)) over y is at most
min(p(x), Q'(x)), and either law can put its rest at x wherever it has more than the other. Accept
the tokens that the text shares with the path; the next token and the modified targets after it are
the text's conditional laws. That is greedy block verification of the selected path (arXiv
2403.10444); for K = 1 the optimum is its sum of min(p(x), q(x)).

SpecTr-GBV's value (arXiv 2604.25925) is below this optimum in general for K > 1.
"""

from __future__ import annotations

from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum.length import LengthOptimum
from draftproof.reference.optimum.pivoting import optimum
from draftproof.reference.rational import Rational


class StatefulOptimum(LengthOptimum):
    """The optimum with its certificate, as `length.check` checks it: A(x) <= p(x) A()."""

    @staticmethod
    def allowed(instance: Instance, prefix: Path) -> tuple[Path, Rational]:
        """Return the empty prefix, and the target's probability of the whole prefix."""
        return (), instance.target.joint(prefix)


def stateful(instance: Instance) -> StatefulOptimum:
    """Return the certified optimum.

    Raises `Unsupported` for an unknown scheme, and `NotOptimal` if the proof does not hold.
    """
    return optimum(StatefulOptimum, instance)
