"""What a fast verifier is given: drafted paths, and rows that lie anywhere in memory.

An engine keeps the rows of a batch one after another, requests of different lengths in a row; the
adapter protocol keeps them in a block. Here both are the same: rows [N, V], and for every drafted
position the number of its row. Nothing is copied to get there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.compiler import is_compiling

LONG = 2**12
"""From how many numbers on a row is read by itself on a CPU, where it is read at all: a call of
torch takes as long as reading so many."""

_PIECE = 2**17
"""How many numbers a core is given at once, of rows that are read one by one: its cache holds them
until they are used."""


@dataclass(frozen=True)
class Softmax:
    """How logits become probabilities: softmax(scale * logits) over the tokens that are kept.

    A token is kept if its logit is above `least`, or equal to it with an id of at most `last`.
    """

    scale: Tensor | None = None
    """[N] float32: 1 / temperature, positive and finite, None for 1."""
    largest: Tensor | None = None
    """[N]: the largest logit, None where there is no scale. It is taken off before logits are
    scaled: scaled ones can be infinite, and differ by as much as their last digit is rounded."""
    least: Tensor | None = None
    """[N] float32: the smallest logit that is kept, None where all are."""
    last: Tensor | None = None
    """[N] int64: the largest id that is kept among equals of the smallest."""

    def __post_init__(self) -> None:
        if (self.scale is None) != (self.largest is None):
            raise ValueError("scale and largest belong together: give both, or neither")

    def of(self, logits: Tensor, where: Tensor | slice, out: Tensor) -> Tensor:
        """Return the probabilities of rows `where` [B], whose logits [B, V] are given, in `out`.

        The logits may be there already: a softmax reads a row before it writes it.
        """
        if logits is not out and not (logits.is_contiguous() and self.least is None):
            logits = out.copy_(logits)
        if self.least is not None and self.last is not None:
            least, last = self.least[where, None], self.last[where, None]
            tokens = torch.arange(logits.shape[-1], device=logits.device)
            is_cut = (logits < least) | ((logits == least) & (tokens > last))
            logits = logits.masked_fill_(is_cut, -torch.inf)
        if self.scale is not None and self.largest is not None:
            logits = torch.sub(logits, self.largest[where, None], out=out)
            logits = logits.mul_(self.scale[where, None])
        return torch.softmax(logits, -1, dtype=out.dtype, out=out)


@dataclass(frozen=True)
class Rows:
    """The rows of one model at the positions of a batch."""

    values: Tensor
    """[N, V], of any strides: probabilities, or logits where there is a `softmax`.

    Where the other model has more tokens than V, this one never says them."""
    at: Tensor
    """[B, K, D] int64: which row belongs to a path's position; any where there is none."""
    softmax: Softmax | None = None
    index: Tensor | None = None
    """[M] int64: the number in `values` of each row that `at` and `softmax` tell of, None for its
    own."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that is computed in: float32, or float64 for rows of it."""
        return torch.promote_types(self.values.dtype, torch.float32)

    def row(self, path: Tensor, depth: int | Tensor, out: Tensor) -> Tensor:
        """Return the probabilities [B, V] at a depth of each request's `path` [B].

        The depth is one for all requests, or [B]. They are in `out`.
        """
        where = self.numbers(path, depth)
        return self._wide(self._gathered(where, out[:, : self.values.shape[1]]), out)

    def _gathered(self, where: Tensor, out: Tensor) -> Tensor:
        """Return the probabilities of rows `where` [B], in `out`, as wide as they are."""
        is_ready = self.values.dtype == out.dtype
        rows = torch.index_select(self.values, 0, self.places(where), out=out if is_ready else None)
        if self.softmax is not None:
            return self.softmax.of(rows, where, out)
        return rows if rows.dtype == out.dtype else out.copy_(rows)

    def together(self, first: int, count: int, out: Tensor) -> Tensor:
        """Return the probabilities [count, V] of rows that lie one after another, without a copy.

        They are where they lie if they are that already, else in `out`.
        """
        out = out[:count]
        where, own = slice(first, first + count), out[:, : self.values.shape[1]]
        if self.index is None:
            rows = self.values[where]
        elif count == 1:
            rows = self.values[int(self.index[first]), None]
        else:
            rows = self.values[self.index[where]]
        if self.softmax is not None:
            rows = self.softmax.of(rows, where, own)
        elif rows.dtype != out.dtype or rows.shape != out.shape:
            rows = own.copy_(rows)
        return self._wide(rows, out)

    def _wide(self, rows: Tensor, out: Tensor) -> Tensor:
        """Return rows that begin in `out`, with zeros for the tokens that this model never says."""
        if rows.shape == out.shape:
            return rows
        out[:, rows.shape[1] :] = 0
        return out

    def numbers(self, path: Tensor, depth: int | Tensor | slice) -> Tensor:
        """Return the numbers [B], or [B, D], of the rows at a depth of each request's `path` [B].

        The depth is one for all requests, or [B], or several.
        """
        return self.at[torch.arange(len(path), device=path.device), path, depth]

    def places(self, numbers: Tensor) -> Tensor:
        """Return where in `values` rows of such numbers lie."""
        return numbers if self.index is None else self.index[numbers]


@dataclass(frozen=True)
class Batch:
    """B requests of K drafted paths, of at most L tokens, over V tokens."""

    tokens: Tensor
    """[B, K, L] int64, contiguous: the drafted paths, 0 beyond a request's length."""
    lengths: Tensor
    """[B] int64, contiguous: how many tokens each request drafts."""
    q: Rows
    """The draft's rows, of depth 0..L-1."""
    p: Rows
    """The target's rows, of depth 0..L; the one at `lengths` is for the bonus."""
    branching: tuple[int, ...] | None = None
    """How many tokens were drawn after every context, None where paths part at the root alone."""
    state: Mapping[str, Tensor] | None = None
    """[B, ...] each: what the iteration before left, of a verifier that is stateful."""
    _room: list[Tensor] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def drafts(self) -> int:
        """The number of drafts K."""
        return self.tokens.shape[1]

    @property
    def length(self) -> int:
        """The largest draft length L."""
        return self.tokens.shape[2]

    @property
    def vocabulary(self) -> int:
        """The vocabulary size V, of the model that has more tokens."""
        return max(self.p.values.shape[1], self.q.values.shape[1])

    @property
    def widths(self) -> tuple[int, ...]:
        """How many tokens were drawn after a context, by its depth."""
        return self.branching or (self.drafts, *[1] * (self.length - 1))

    @property
    def room(self) -> Sequence[Tensor]:
        """Memory [B, V] for three rows of every request: where a verifier computes.

        It is made once, and not touched before it is used: memory that is new is slow.
        """
        if not self._room:
            shape = 3, len(self.lengths), self.vocabulary
            made = torch.empty(shape, dtype=self.p.dtype, device=self.p.values.device)
            self._room.extend(made.unbind())
        return self._room

    @property
    def one_by_one(self) -> bool:
        """Whether rows are read one by one, and only those that matter.

        Which rows those are, depends on random numbers. A GPU would have to be waited for, and a
        graph be left, to know it: there, all requests are verified in the same steps. So are they
        where rows are short.
        """
        rows = self.p.values
        return rows.device.type == "cpu" and rows.shape[1] >= LONG and not is_compiling()

    @property
    def at_once(self) -> int:
        """How many rows of a model are computed at once where they are read one by one."""
        most = torch.get_num_threads() * _PIECE // self.p.values.shape[1]
        return max(1, min(most, len(self.lengths)))

    def any_path(self) -> Tensor:
        """Return path 0 for every request, [B] int64."""
        return torch.zeros_like(self.lengths)

    def token(self, path: Tensor, depth: int) -> Tensor:
        """Return the token [B] at a depth of each request's `path` [B]."""
        if self.drafts == 1:
            return self.tokens[:, 0, depth]
        return self.tokens[torch.arange(len(path), device=path.device), path, depth]


def uniforms(
    rows: int,
    width: int,
    generator: torch.Generator | list[torch.Generator | None] | None,
    device: torch.device,
) -> Tensor:
    """Return numbers [rows, width] in [0, 1), float64, from one generator or each row's own.

    Doubles: 2**24 numbers cannot draw from 2**18 equal tokens, each would be off by 1/64.
    """
    if generator is None:
        # Told of a generator, if it be none, torch cannot trace sizes that vary.
        return torch.rand(rows, width, dtype=torch.float64, device=device)
    if not isinstance(generator, list):
        return torch.rand(rows, width, dtype=torch.float64, device=device, generator=generator)
    # No number is drawn from the default generator where no row is left to it.
    made = torch.rand if None in generator else torch.empty
    noise = made(rows, width, dtype=torch.float64, device=device)
    for row, own in enumerate(generator):
        if own is not None:
            noise[row].uniform_(generator=own)
    return noise
