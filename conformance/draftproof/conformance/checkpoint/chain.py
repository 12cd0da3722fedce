"""Markov chain of tokens with known rows: the distribution of a checkpoint, owed by an engine.

The distribution of the next token depends on the last `memory` tokens only. Its logits are a sum of
tables, one for each of these tokens:

    logit(y | ..., b, a) = (table[0][state(a)][y] + table[1][state(b)][y] + ...) / STEPS

All table entries are integers, small enough that every logit is a bfloat16 number. A checkpoint in
any dtype therefore stores its logits without an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import tanh

import numpy
from numpy.typing import NDArray

from draftproof.reference.rational import ONE, Rational, rational, total

Integers = NDArray[numpy.int64]
Floats = NDArray[numpy.float64]

STEPS = 16
"""Logits are multiples of 1/16; a number below 16 then has the 8 bits of a bfloat16."""

EXCLUDED = -48 * STEPS
"""Logit of a token with probability zero: its softmax is less than 1e-20."""

DENOMINATOR = 10**12
"""Denominator of rows: it moves each row by less than 1e-11 in total variation."""

SPECIAL = ("<unk>", "<s>", "</s>")
"""The special tokens, with the ids 0, 1 and 2."""

UNKNOWN, BEGIN, END = range(len(SPECIAL))

MOST_WORDS = {1: 8, 2: 5, 3: 4}
"""Maximum number of tokens with mass, by the memory: with few rows, few tokens reveal a fault."""

MEMORIES = range(1, 4)
"""Numbers of last tokens that a row may depend on."""


class InvalidChain(ValueError):
    """Error of impossible settings; the message names the wrong setting, and its valid values."""


@dataclass(frozen=True)
class MarkovChain:
    """Rows of a target and of a draft.

    `words` has the ids of the tokens that have mass, in increasing order. Token `words[i]` leads to
    state i + 1; every other token leads to state 0. Tables [memory, states, words] hold integers.
    `temperature` is the temperature at which an engine must sample to follow the rows.
    """

    vocabulary: int
    words: tuple[int, ...]
    target: Integers
    draft: Integers
    seed: int = 0
    temperature: Rational = ONE

    @property
    def memory(self) -> int:
        """The number of last tokens that a row depends on."""
        return len(self.target)

    @property
    def states(self) -> int:
        """The number of states that one token can lead to."""
        return len(self.words) + 1

    @cached_property
    def state_of(self) -> dict[int, int]:
        """The state of each token with mass."""
        return {word: state for state, word in enumerate(self.words, start=1)}

    def contexts(self) -> Iterator[tuple[int, ...]]:
        """Yield the states of the last tokens, earliest first, for every row."""
        return product(range(self.states), repeat=self.memory)

    def rows(self, tables: Integers) -> dict[tuple[int, ...], tuple[Rational, ...]]:
        """Return the row of every context: exact probabilities of the words."""
        return {
            context: parts(softmax(self.logits(tables, context))) for context in self.contexts()
        }

    def logits(self, tables: Integers, context: Sequence[int]) -> Integers:
        """Return the logits [words] of a context in steps, at the temperature of the chain."""
        found: Integers = tables[range(self.memory), [*reversed(context)]].sum(0)
        return found


def chain(
    *,
    memory: int = 1,
    vocabulary: int = 16,
    distance: float = 0.25,
    zeros: int = 2,
    temperature: Rational = ONE,
    seed: int = 0,
) -> MarkovChain:
    """Return a random chain whose draft is at a mean distance from the target.

    In every row, `zeros` tokens have probability zero; the last token of the context determines
    which. Raises `InvalidChain`.
    """
    if memory not in MEMORIES:
        raise InvalidChain(f"a memory is 1 to {MEMORIES[-1]} tokens, got {memory}")
    least = len(SPECIAL) + 2
    if not least <= vocabulary <= 2**20:
        raise InvalidChain(f"a vocabulary has {least} to 1,048,576 tokens, got {vocabulary}")
    words = spread_out(vocabulary, memory)
    if not 0 <= zeros <= len(words) - 2:
        raise InvalidChain(
            f"{len(words)} tokens have mass, and a row keeps 2 of them: at most "
            f"{len(words) - 2} zeros are possible, got {zeros}"
        )
    if not 0 <= distance < 1:
        raise InvalidChain(f"a distance is at least 0 and below 1, got {distance}")
    if temperature <= 0:
        raise InvalidChain(f"a temperature is positive, got {temperature}")
    random = numpy.random.default_rng(seed)
    shape = (memory, len(words) + 1, len(words))
    target = -random.integers(0, _WIDEST + 1, size=shape)
    # The earliest token moves a row most: a fault of attention or of the cache loses that one. The
    # others move it less, so that no token is nearly certain.
    target[:-1] //= 2
    excluded = numpy.zeros(shape[1:], dtype=bool)
    for row in excluded:
        row[random.choice(len(words), size=zeros, replace=False)] = True
    direction = random.normal(size=shape)
    draft = _at_distance(target, direction, excluded, distance)
    for tables in (target, draft):
        tables[0][excluded] = EXCLUDED
    return MarkovChain(vocabulary, words, target, draft, seed, temperature)


_WIDEST = 4 * STEPS
"""The largest difference of two logits in a table of the target."""

_LOWEST = 8 * STEPS - 1
"""The lowest logit in a table of the draft."""


def spread_out(vocabulary: int, memory: int) -> tuple[int, ...]:
    """Return the ids of the tokens that have mass: from the first id to the last."""
    first = len(SPECIAL)
    count = min(MOST_WORDS[memory], vocabulary - first)
    return tuple(first + (vocabulary - 1 - first) * i // (count - 1) for i in range(count))


def softmax(logits: Integers) -> Floats:
    """Return the distribution of logits in steps."""
    weights = numpy.exp((logits - logits.max()) / STEPS)
    row: Floats = weights / weights.sum()
    return row


def parts(row: Floats) -> tuple[Rational, ...]:
    """Return a distribution as exact rationals; the largest entry absorbs the rounding error."""
    whole = [round(each * DENOMINATOR) for each in row]
    whole[int(row.argmax())] += DENOMINATOR - sum(whole)
    return tuple(rational(each) / DENOMINATOR for each in whole)


def distances(target: Sequence[Rational], draft: Sequence[Rational]) -> Rational:
    """Return the total variation distance of two rows."""
    return total(abs(p - q) for p, q in zip(target, draft, strict=True)) / 2


def shift_bound(error: float) -> float:
    """Return the largest total variation distance that errors of logits can make.

    If no logit is off by more than e, the odds of any event change by a factor of at most
    exp(2 e), so its probability changes by at most tanh(e / 2).
    """
    return tanh(error / 2)


def _at_distance(
    target: Integers, direction: Floats, excluded: NDArray[numpy.bool_], distance: float
) -> Integers:
    """Return the draft's tables, moved along a direction until the mean distance is reached."""

    def moved(by: float) -> Integers:
        tables = target + numpy.rint(by * STEPS * direction).astype(numpy.int64)
        tables -= tables.max(axis=-1, keepdims=True)
        return numpy.maximum(tables, -_LOWEST)

    def found(by: float) -> float:
        return _mean_distance(target, moved(by), excluded)

    low, high = 0.0, 32.0
    if distance and found(high) < distance:
        raise InvalidChain(
            f"no draft of this shape has a distance of {distance}: at most {found(high):.2f}"
        )
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if found(middle) < distance else (low, middle)
    return moved(low if distance == 0 else high)


def _mean_distance(target: Integers, draft: Integers, excluded: NDArray[numpy.bool_]) -> float:
    """Return the mean distance of rows, all contexts weighing the same."""
    p, q = (_all_rows(tables, excluded) for tables in (target, draft))
    return float(abs(p - q).sum(-1).mean() / 2)


def _all_rows(tables: Integers, excluded: NDArray[numpy.bool_]) -> Floats:
    """Return the rows [states, ..., states, words] of all contexts, the last token's state last."""
    memory, states, words = tables.shape
    total = numpy.zeros((*[states] * memory, words))
    for back, table in enumerate(tables):
        shape = [1] * memory
        shape[memory - 1 - back] = states
        total = total + table.reshape(*shape, words)
    total = numpy.where(excluded, -numpy.inf, total)
    weights = numpy.exp((total - total.max(-1, keepdims=True)) / STEPS)
    rows: Floats = weights / weights.sum(-1, keepdims=True)
    return rows
