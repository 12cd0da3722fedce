"""The largest E[accepted length] of any verifier that leaves later targets untouched.

The value holds for any K, any scheme, and verifiers that know all rows, also off the drafted paths.
It is a linear program over the tree of prefixes. The *node budget* A(x) is the probability that the
accepted tokens start with x, A() = 1:

    maximise    sum of A(x) over prefixes x of 1..L tokens
    subject to  A(xy) <= A(x) p(y|x)    accepted and corrected tokens must follow the target
                A(x)  <= Q'(x)          the accepted tokens are on one drafted path: see `length`
                A(x)  >= 0.

**No verifier has more.** The text starts with x with probability p(x). If the accepted tokens do
not start with x, the target writes from x on, so of the texts that start with xy,
(p(x) - A(x)) p(y|x) are of that kind. For the other texts, xy is accepted, or x is accepted and
followed by the next token y:

    A(xy) + P(x is accepted, y is the next token) = A(x) p(y|x).

**Every such budget belongs to a verifier.** Stop at x with probability S(x) = A(x) - sum of A(xy),
which the first constraint keeps from being negative, and draw the next token from
A(x) p(y|x) - A(xy). The verifier needs a way to stop on the selected path with these probabilities:
stops at or below x ask for A(x), and paths through x offer Q'(x). These sets are nested or
disjoint, so Hall's condition needs no more than A(x) <= Q'(x).

For K = 1 the optimum is block verification's, A(xy) = min(A(x) p(y|x), q(xy)) (arXiv 2403.10444,
Lemmas 3 and 4). For K i.i.d. paths it is the program of arXiv 2602.16961, section 4, whose greedy
verifier is the best one of a single order; the optimum mixes several.
"""

from __future__ import annotations

from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum.length import LengthOptimum
from draftproof.reference.optimum.pivoting import optimum
from draftproof.reference.rational import Rational


class StatelessOptimum(LengthOptimum):
    """The optimum with its certificate, as `length.check` checks it: A(xy) <= p(y|x) A(x)."""

    @staticmethod
    def allowed(instance: Instance, prefix: Path) -> tuple[Path, Rational]:
        """Return the prefix without its last token, and the target's probability of that token."""
        context = prefix[:-1]
        return context, instance.target(context)[prefix[-1]]


def stateless(instance: Instance) -> StatelessOptimum:
    """Return the certified optimum.

    Raises `Unsupported` for an unknown scheme, and `NotOptimal` if the proof does not hold.
    """
    return optimum(StatelessOptimum, instance)
