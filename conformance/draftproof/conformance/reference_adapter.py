"""The reference as an adapter: one text, and four readings.

A verifier of the reference asks a `Chance` for its coins. Enumerated it has a law, with dice it
emits, with symbols it proves a theorem; here torch's generator answers, and the text itself is put
on trial, on every lane. For the command line each is an attribute of this module, such as
`draftproof.conformance.reference_adapter:recursive_rejection`, or, for the schemes after its first,
`recursive_rejection_without_replacement`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from importlib.metadata import version
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.adapter import DraftRequest, DraftResult, Request, Result
from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafts, FixedTree, draft_paths, require_drawable
from draftproof.reference.emission import Emission
from draftproof.reference.errors import (
    MissingContext,
    NotADistribution,
    TokenOutOfRange,
    Unsupported,
    WrongShape,
)
from draftproof.reference.model import Instance, Model, Path, Row, context_key
from draftproof.reference.rational import ONE, ZERO, Rational, exactly, rational, total
from draftproof.reference.rows import normalised
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, Verifier, require_fit

_MANY = 8
"""The largest K that is declared for a text that takes any."""


class ReferenceVerifier:
    """A verifier written in the reference's style, run row by row on torch's random numbers.

    `text` is an `Algorithm` or a function verify(drafts, instance, chance) of your own. It is given
    the rows along the drafted paths, exactly as they come, and normalised; `MissingContext` says
    so where it asks for another. `max_drafts` is what the text takes, unless it is given.

    Raises `Unsupported` for a stateful algorithm, and for a scheme that it does not take.
    """

    version = version("draftproof")
    dtypes = ("float32", "float64", "float16", "bfloat16")

    def __init__(
        self,
        text: Algorithm | Verifier,
        *,
        scheme: str | None = None,
        max_drafts: int | None = None,
    ) -> None:
        algorithm = text if isinstance(text, Algorithm) else _own(text)
        if algorithm.stateful:
            raise Unsupported(
                f"{algorithm.name} leaves a modified target behind, for which a Result has no place"
            )
        self.scheme = scheme or algorithm.schemes[0]
        if self.scheme not in algorithm.schemes:
            raise Unsupported(
                f"{algorithm.name} takes drafts of the scheme "
                f"{' or '.join(map(repr, algorithm.schemes))}, got {self.scheme!r}"
            )
        most = 2 if self.scheme == "hub" else _MANY
        self.max_drafts = max_drafts or algorithm.most_drafts or most
        self.name = f"reference-{algorithm.name}"
        self.algorithm = algorithm.name
        self._text = algorithm

    def verify(self, request: Request) -> Result:
        """Verify B rows of K paths, one after another. Raises an `InvalidInput`."""
        columns = request.draft_tokens, request.draft_probs, request.target_probs
        _require_shapes(*(tuple(column.shape) for column in columns))
        # Sums of stored rows are off by the rounding of every entry, and of what computed them.
        widest = max(torch.finfo(rows.dtype).eps for rows in columns[1:])
        allowed = exactly(widest) + request.draft_probs.shape[-1] * exactly(2.0**-23)
        chance = TorchChance(request.generator)
        emissions = [
            self._emitted(_frozen(paths), _frozen(q), _frozen(p), allowed, chance)
            for paths, q, p in zip(*(column.tolist() for column in columns), strict=True)
        ]
        return Result(
            accepted_length=torch.tensor([len(e.accepted) for e in emissions], dtype=torch.int64),
            path=torch.tensor([e.path for e in emissions], dtype=torch.int64),
            next_token=torch.tensor([e.next_token for e in emissions], dtype=torch.int64),
        )

    def draft(self, request: DraftRequest) -> DraftResult:
        """Draw B times K paths by the scheme. Raises `Unsupported` where it runs out of tokens."""
        model, chance = AskedFor(request), TorchChance(request.generator)
        instance = Instance(
            model, model, length=request.length, drafts=request.drafts, scheme=self.scheme
        )
        drawn = [draft_paths(instance, chance) for _ in range(request.rows)]
        for paths in drawn:
            if len(paths) < request.drafts:
                raise Unsupported(
                    f"the scheme {self.scheme!r} finds tokens for {len(paths)} paths, "
                    f"{request.drafts} are asked for"
                )
        rows = [
            [torch.stack([model.declared(path[:i]) for i in range(len(path))]) for path in paths]
            for paths in drawn
        ]
        return DraftResult(torch.tensor(drawn), torch.stack([torch.stack(each) for each in rows]))

    def _emitted(
        self, paths: Drafts, q: _Rows, p: _Rows, allowed: Rational, chance: Chance
    ) -> Emission:
        instance = _instance(paths, q, p, self.scheme, allowed)
        require_fit(self._text, instance)
        require_drawable(paths, instance)
        return self._text.verify(FixedTree(paths, instance), instance, chance)


class TorchChance:
    """Answers by torch's random numbers, of double precision."""

    def __init__(self, generator: torch.Generator | None) -> None:
        self._generator = generator

    def coin(self, probability: Rational) -> bool:
        """Return True with the given probability, up to 2**-53."""
        # What is certain stays so where rounding has made a uniform number 1.
        return probability == 1 or bool(self._uniform() < float(probability))

    def draw(self, weights: Sequence[Rational]) -> int:
        """Return index i with probability weights[i] / sum(weights), up to 2**-53.

        Raises `NotADistribution` for weights that are negative or all zero.
        """
        weights = [rational(weight) for weight in weights]
        mass = total(weights)
        if mass == 0 or min(weights) < 0:
            raise NotADistribution(f"cannot draw with the weights {', '.join(map(str, weights))}")
        # The edges are exact before they are rounded: an index without weight has no width. What
        # lies beyond all of them belongs to the last index that has some.
        last = max(index for index, weight in enumerate(weights) if weight != 0)
        edges = [float(edge / mass) for edge in accumulate(weights[:last])]
        return int((torch.tensor(edges, dtype=torch.float64) <= self._uniform()).sum())

    def _uniform(self) -> Tensor:
        return torch.rand((), dtype=torch.float64, generator=self._generator)


_Rows = tuple[tuple[tuple[float, ...], ...], ...]
"""Rows of one request, as floats: [K, L, V] of the draft, [K, L+1, V] of the target."""


@lru_cache(maxsize=4096)
def _instance(paths: Drafts, q: _Rows, p: _Rows, scheme: str, allowed: Rational) -> Instance:
    """Return what is known of the models: the rows along the paths."""
    vocabulary, length = len(q[0][0]), len(paths[0])
    for path in paths:
        for token in path:
            if token not in range(vocabulary):
                raise TokenOutOfRange(f"drafted token {token} is not in 0..{vocabulary - 1}")
    return Instance(
        AlongPaths("target", vocabulary, _by_context("target", paths, p, allowed)),
        AlongPaths("draft", vocabulary, _by_context("draft", paths, q, allowed)),
        length=length,
        drafts=len(paths),
        scheme=scheme,
    )


class AlongPaths(Model):
    """A model of which a row is known at some contexts only; `MissingContext` at all others."""

    def __init__(self, name: str, vocabulary: int, rows: Mapping[Path, Row]) -> None:
        # An instance asks a context-free model for no row before a verifier does.
        super().__init__(name, vocabulary, {(): rows[()]}, context_free=True, modified=rows)

    def __call__(self, context: Path) -> Row:
        """Return the row at `context`. Raises `MissingContext` off the drafted paths."""
        if context not in self.modified:
            raise MissingContext(
                f"the verifier asks for the {self.name}'s row at {context_key(context)!r}, which "
                f"lies on none of the drafted paths: a request has rows along them only"
            )
        return self.modified[context]


class AskedFor(Model):
    """A draft model that is asked for a row when a drafter comes to it."""

    def __init__(self, request: DraftRequest) -> None:
        any_row = (ONE, *[ZERO] * (request.vocabulary - 1))
        super().__init__("draft", request.vocabulary, {(): any_row}, context_free=True)
        object.__setattr__(self, "declared", cache(partial(_processed, request)))

    declared: Callable[[Path], Tensor]
    """The row [V] at a context, as a verifier is told."""

    def __call__(self, context: Path) -> Row:
        """Return the row at `context`, normalised."""
        return normalised([exactly(weight) for weight in self.declared(context).tolist()])


def _processed(request: DraftRequest, context: Path) -> Tensor:
    """Return the model's row at its temperature, cut to top-k and then to top-p, normalised."""
    (row,) = request.next_probs(torch.tensor([context], dtype=torch.int64))
    if request.temperature == 0:
        return torch.zeros_like(row).index_fill(0, row.argmax(), 1.0)
    # Powers of what is 1 at most do not all vanish.
    ranked, tokens = (
        (row / row.max()).pow(1 / request.temperature).sort(descending=True, stable=True)
    )
    ranked[request.top_k or len(ranked) :] = 0
    before = (ranked.cumsum(0) - ranked) / ranked.sum()
    kept = torch.where((before < request.top_p) | (request.top_p >= 1), ranked, 0.0)
    return torch.zeros_like(row).scatter(0, tokens, kept / kept.sum())


def _by_context(name: str, paths: Drafts, rows: _Rows, allowed: Rational) -> dict[Path, Row]:
    """Return the normalised rows by what they follow. Paths that share a prefix share its row."""
    known: dict[Path, tuple[float, ...]] = {}
    for path, along in zip(paths, rows, strict=True):
        for depth, row in enumerate(along):
            if known.setdefault(path[:depth], row) != row:
                raise NotADistribution(
                    f"the {name} has two different rows after {context_key(path[:depth])!r}"
                )
    return {context: _normalised(name, context, row, allowed) for context, row in known.items()}


def _normalised(name: str, context: Path, row: Sequence[float], allowed: Rational) -> Row:
    weights = [exactly(weight) for weight in row]
    if abs(total(weights) - 1) > allowed:
        raise NotADistribution(
            f"the {name}'s row after {context_key(context)!r} must sum to 1, it sums to "
            f"{float(total(weights))}"
        )
    return normalised(weights)


def _require_shapes(tokens: Sequence[int], q: Sequence[int], p: Sequence[int]) -> None:
    if len(tokens) != 3 or min(tokens) < 1:
        raise WrongShape(f"draft_tokens must be [B, K, L], none of them 0, got {list(tokens)}")
    rows, drafts, length = tokens
    vocabulary = q[-1]
    for name, shape, wanted in (
        ("draft_probs", q, (rows, drafts, length, vocabulary)),
        ("target_probs", p, (rows, drafts, length + 1, vocabulary)),
    ):
        if tuple(shape) != wanted:
            raise WrongShape(f"{name} must be {list(wanted)}, got {list(shape)}")


def _frozen(nested: Any) -> Any:
    return tuple(map(_frozen, nested)) if isinstance(nested, list) else nested


def _own(verify: Verifier) -> Algorithm:
    name = getattr(verify, "__name__", type(verify).__name__)
    return Algorithm(name=name, title=name, source="your own", verify=verify)


def __getattr__(name: str) -> ReferenceVerifier:
    """Make the adapter called ALGORITHM or ALGORITHM_SCHEME."""
    for algorithm in ALGORITHMS.values():
        for scheme in algorithm.schemes:
            if name in (algorithm.name, f"{algorithm.name}_{scheme}"):
                return ReferenceVerifier(algorithm, scheme=scheme)
    raise AttributeError(f"the reference has no verifier {name!r}")
