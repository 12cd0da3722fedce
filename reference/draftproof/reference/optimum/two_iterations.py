"""The largest expected number of tokens that two iterations of one path write.

The first iteration emits e, 1 to L + 1 tokens; the second one drafts afresh after e. The first may
leave any law of the text after e, and the second any law of the text after that. With B(e, z) the
probability that e is emitted and the text goes on with z, and C(e, z) the probability that the
second iteration also accepts z:

    maximise    sum over e of (|e| + 1) B(e, ()), plus the sum of C(e, z) over z of 1..L tokens
    subject to  B(e, z) = sum of B(e, zy) over y
                the text t is the target's: over all e and z with ez = t,
                    sum of B(e, z), plus that of B(e, ()) over longer e, = p(t)  if |t| <= L + 1
                    sum of B(e, z), z having at most L tokens, <= p(t)           if |t| > L + 1
                sum of B(e, ()) over the e whose tokens but the last start with x <= q(x)
                C(e, z) <= B(e, z),   C(e, z) <= B(e, ()) q(z|e)
                B, C >= 0.

**No verifier has more.** These are necessary: the accepted tokens x of the first iteration are
drafted, and so are those of the second, whose draft depends on the past through e alone.

**Some verifier has this value.** Stopping at x with the probability of the e that go on from x is
possible on a drafted path, since the sets of paths below prefixes are nested or disjoint (Hall).
The law after e that B leaves is a law of L tokens; beyond them it is whatever the target's law
still lacks, which the inequality keeps from being negative. The second iteration is greedy block
verification against that law, which accepts the sum of min(B(e, z)/B(e, ()), q(z|e)), as much as
any (arXiv 2403.10444). To know more of the past than e is of no use, as the minimum is concave.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum.linear import Bound, LinearProgram, Maximum, maximum
from draftproof.reference.rational import ONE, ZERO, Rational, rational

Sums = defaultdict[Path, dict[Hashable, Rational]]


def two_iterations(instance: Instance) -> Maximum:
    """Return the certified maximum; unknowns are B as ("text", e, z) and C as ("kept", e, z).

    Raises `Unsupported` for several paths, `MissingContext` if the target has no rows for texts of
    2 L + 1 tokens.
    """
    if instance.drafts != 1:
        raise Unsupported(f"two iterations are optimised for one path, not {instance.drafts}")
    length, target, draft = instance.length, instance.target, instance.draft
    texts = [text for text in target.reachable(2 * length + 1) if text]
    objective: dict[Hashable, Rational] = {}
    limits: list[Bound] = []
    written: Sums = defaultdict(dict)
    drafted: Sums = defaultdict(dict)
    parts: defaultdict[Hashable, dict[Hashable, Rational]] = defaultdict(dict)
    for text in texts:
        for size in range(max(1, len(text) - length), min(len(text), length + 1) + 1):
            emitted, following = text[:size], text[size:]
            here, name = ("text", emitted, ()), ("text", emitted, following)
            written[text][name] = ONE
            if following:
                kept = "kept", emitted, following
                share = draft.after(emitted).joint(following)
                limits += [({kept: ONE, name: -ONE}, ZERO), ({kept: ONE, here: -share}, ZERO)]
                objective[kept] = ONE
                parts["text", emitted, following[:-1]][name] = -ONE
            else:
                objective[here] = rational(size + 1)
                for begun in (text[:each] for each in range(1, size)):
                    written[begun][here] = drafted[begun][here] = ONE
    equations: list[Bound] = [({whole: ONE, **below}, ZERO) for whole, below in parts.items()]
    for text in texts:
        bounds = equations if len(text) <= length + 1 else limits
        bounds.append((written[text], target.joint(text)))
    limits += [(emissions, draft.joint(begun)) for begun, emissions in drafted.items()]
    return maximum(LinearProgram(objective, limits, equations))
