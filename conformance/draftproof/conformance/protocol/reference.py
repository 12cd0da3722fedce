"""The reference as an adapter: the same text, run on torch's random numbers.

A verifier of the reference asks a `Chance` for its coins. Enumerating the answers gives its law,
random answers give an emission, symbols give a theorem; here torch's generator answers, so that
every lane can judge the text itself. For the command line each verifier is an attribute of this
module, such as `draftproof.conformance.reference_adapter:recursive_rejection`, or, for the schemes
after its first, `recursive_rejection_without_replacement`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from importlib.metadata import version
from itertools import accumulate
from math import prod
from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.protocol.adapter import DraftRequest, DraftResult, Request, Result
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
from draftproof.reference.process import after
from draftproof.reference.rational import ONE, ZERO, Rational, exactly, rationals, total
from draftproof.reference.rows import normalised
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, Verifier, require_fit

_MANY = 8
"""Largest K that the adapter declares for a text that takes any K."""

_ELSEWHERE = {"spectr_gbv": "where it stops depends on the rows of all that could be drafted"}
"""Texts that need rows off the drafted paths, which no request has, and the reasons."""


class ReferenceVerifier:
    """A verifier written in the reference's style, run row by row on torch's random numbers.

    `text` is an `Algorithm` or a function verify(drafts, instance, chance) of your own. The text
    gets the rows along the drafted paths, with their exact values, normalised; a question about any
    other row raises `MissingContext`. `max_drafts` is by default the largest K that the text takes.

    The state that a stateful text leaves of a row is the row's story: its requests since the last
    point that no block spans, and the answers of chance. The next iteration replays the story with
    the rows known by then, which gives the modified rows along the new paths. The replay is exact
    for every text, and needs no formula; a ratio in floats would be shorter, but not exact. A story
    is as long as blocks overlap, and drafts must reach as far as the earlier blocks.

    Raises `Unsupported` for a scheme that the text does not take, and for a text that asks for rows
    off the paths.
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
        if algorithm.name in _ELSEWHERE:
            raise Unsupported(
                f"{algorithm.name} cannot be asked by requests, which have rows along the drafted "
                f"paths only: {_ELSEWHERE[algorithm.name]}"
            )
        self.scheme = scheme or algorithm.schemes[0]
        if self.scheme not in algorithm.schemes:
            raise Unsupported(
                f"{algorithm.name} takes drafts of the scheme "
                f"{' or '.join(map(repr, algorithm.schemes))}, got {self.scheme!r}"
            )
        most = 2 if self.scheme == "hub" and not algorithm.trees else _MANY
        self.max_drafts = max_drafts or algorithm.most_drafts or most
        self.name = f"reference-{algorithm.name}"
        self.algorithm = algorithm.name
        # What a tree of several iterations leaves has no place in a story.
        self.trees = algorithm.trees and not algorithm.stateful
        self._text = algorithm

    def verify(self, request: Request) -> Result:
        """Verify B rows of K paths, one after another. Raises an `InvalidInput`."""
        columns = request.draft_tokens, request.draft_probs, request.target_probs
        _require_shapes(*(tuple(column.shape) for column in columns))
        # Sums of stored rows are off by the rounding of every entry, and of what computed them.
        widest = max(torch.finfo(rows.dtype).eps for rows in columns[1:])
        allowed = exactly(widest) + request.draft_probs.shape[-1] * exactly(2.0**-23)
        chance = TorchChance(request.generator)
        asked = [
            Iteration(_frozen(paths), _frozen(q), _frozen(p))
            for paths, q, p in zip(*(column.tolist() for column in columns), strict=True)
        ]
        stories = _stories(request.state, len(asked))
        emissions = []
        for row, (story, now) in enumerate(zip(stories, asked, strict=True)):
            heard = Heard(chance)
            emission = self._emitted((*story, now), request.branching or (), allowed, heard)
            emissions.append(emission)
            told = replace(now, answers=tuple(heard.answers), emitted=emission.tokens)
            stories[row] = _in_force((*story, told))
        return Result(
            accepted_length=torch.tensor([len(e.accepted) for e in emissions], dtype=torch.int64),
            path=torch.tensor([e.path for e in emissions], dtype=torch.int64),
            next_token=torch.tensor([e.next_token for e in emissions], dtype=torch.int64),
            state=_state(stories) if self._text.stateful else None,
        )

    def draft(self, request: DraftRequest) -> DraftResult:
        """Draw B times K paths by the scheme. Raises `Unsupported` where it runs out of tokens."""
        model, chance = AskedFor(request), TorchChance(request.generator)
        instance = Instance(
            model,
            model,
            length=request.length,
            drafts=request.drafts,
            scheme=self.scheme,
            branching=request.branching or (),
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
        self, story: Story, branching: tuple[int, ...], allowed: Rational, chance: Chance
    ) -> Emission:
        """Return the emission of the last iteration of a story."""
        paths = story[-1].paths
        instance = _instance(self._text, story, self.scheme, branching, allowed)
        require_fit(self._text, instance)
        require_drawable(paths, instance)
        return self._text.verify(FixedTree(paths, instance), instance, chance)


_Rows = tuple[tuple[tuple[float, ...], ...], ...]
"""Rows of one request, as floats: [K, L, V] of the draft, [K, L+1, V] of the target."""


@dataclass(frozen=True)
class Iteration:
    """One request for a row, the answers of chance, and the emitted tokens."""

    paths: Drafts
    draft_probs: _Rows
    target_probs: _Rows
    answers: tuple[int, ...] = ()
    emitted: Path = ()


Story = tuple[Iteration, ...]
"""Consecutive iterations of one row."""


class TorchChance:
    """Chance that answers with torch's random numbers, in double precision."""

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
        edges = torch.tensor(_edges(rationals(weights)), dtype=torch.float64)
        return int((edges <= self._uniform()).sum())

    def _uniform(self) -> Tensor:
        return torch.rand((), dtype=torch.float64, generator=self._generator)


@lru_cache(maxsize=256)
def _edges(weights: tuple[Rational, ...]) -> tuple[float, ...]:
    """Return the upper ends of all shares of 0..1 except the last. Raises as `draw` does."""
    mass = total(weights)
    if mass == 0 or min(weights) < 0:
        raise NotADistribution(f"cannot draw with the weights {', '.join(map(str, weights))}")
    # The edges are exact before they are rounded: an index without weight has no width. What
    # lies beyond all of them belongs to the last index that has some.
    last = max(index for index, weight in enumerate(weights) if weight != 0)
    return tuple(float(edge / mass) for edge in accumulate(weights[:last]))


class Heard:
    """Chance that passes on the answers of another chance, and records them."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self.answers: list[int] = []

    def coin(self, probability: Rational) -> bool:
        """Return the chance's answer."""
        self.answers.append(self._chance.coin(probability))
        return bool(self.answers[-1])

    def draw(self, weights: Sequence[Rational]) -> int:
        """Return the chance's answer."""
        self.answers.append(self._chance.draw(weights))
        return self.answers[-1]


class Retold:
    """Chance that repeats recorded answers."""

    def __init__(self, answers: Sequence[int]) -> None:
        self._answers = iter(answers)

    def coin(self, probability: Rational) -> bool:  # noqa: ARG002  # what was asked is known
        """Return the next answer."""
        return bool(next(self._answers))

    def draw(self, weights: Sequence[Rational]) -> int:  # noqa: ARG002  # what was asked is known
        """Return the next answer."""
        return next(self._answers)


@lru_cache(maxsize=4096)
def _instance(
    text: Algorithm, story: Story, scheme: str, branching: tuple[int, ...], allowed: Rational
) -> Instance:
    """Return the known part of the models where a story's last iteration starts.

    It consists of the rows along the paths, the target's as modified by the earlier iterations.
    """
    p: dict[Path, Row] = {}
    q: dict[Path, Row] = {}
    written: Path = ()
    end = 0
    for each in story:
        end = max(end, len(written) + len(each.paths[0]))
        along_p = _by_context("target", each.paths, each.target_probs, allowed)
        along_q = _by_context("draft", each.paths, each.draft_probs, allowed)
        p |= {(*written, *context): row for context, row in along_p.items()}
        q |= {(*written, *context): row for context, row in along_q.items()}
        written = (*written, *each.emitted)
    beyond = end - len(written) - len(story[-1].paths[0])
    if beyond > 0:
        raise MissingContext(
            f"a block before modifies the target up to {beyond} tokens beyond what is drafted now, "
            f"where a request has no row of the draft: draft as many tokens more"
        )
    known = SoFar if text.stateful else AlongPaths
    vocabulary = len(p[()])
    target: Model = known("target", vocabulary, p)
    draft: Model = known("draft", vocabulary, q)
    for each in story[:-1]:
        before = _drafting(each.paths, target, draft, scheme, ())
        emission = text.verify(FixedTree(each.paths, before), before, Retold(each.answers))
        target, draft = after(target, emission), draft.after(emission.tokens)
    return _drafting(story[-1].paths, target, draft, scheme, branching)


def _drafting(
    paths: Drafts, target: Model, draft: Model, scheme: str, branching: tuple[int, ...]
) -> Instance:
    return Instance(
        target,
        draft,
        length=len(paths[0]),
        drafts=prod(branching) if branching else len(paths),
        scheme=scheme,
        branching=branching,
    )


class AlongPaths(Model):
    """Model with rows at some contexts only; it raises `MissingContext` at all others."""

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


class SoFar(AlongPaths):
    """Model that gives no weight to the text after a context with an unknown row.

    A stateful text that computes its modified rows asks at all contexts; with this model it leaves
    rows along the drafted paths, and none at the other contexts. Its emission does not depend on
    the others.
    """

    def __call__(self, context: Path) -> Row:
        """Return the row at `context`, all zero off the drafted paths."""
        return self.modified.get(context, (ZERO,) * self.vocabulary)


class AskedFor(Model):
    """Draft model that reads a row from the request when the drafter reaches its context."""

    def __init__(self, request: DraftRequest) -> None:
        any_row = (ONE, *[ZERO] * (request.vocabulary - 1))
        super().__init__("draft", request.vocabulary, {(): any_row}, context_free=True)
        object.__setattr__(self, "declared", cache(partial(_processed, request)))

    declared: Callable[[Path], Tensor]
    """The row [V] at a context, as declared to a verifier."""

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
    """Return the normalised rows by their context. Paths that share a prefix share its row."""
    known: dict[Path, tuple[float, ...]] = {}
    for path, along in zip(paths, rows, strict=True):
        for token in path:
            if token not in range(len(along[0])):
                raise TokenOutOfRange(f"drafted token {token} is not in 0..{len(along[0]) - 1}")
        for depth, row in enumerate(along):
            if known.setdefault(path[:depth], row) != row:
                raise NotADistribution(
                    f"the {name} has two different rows after {context_key(path[:depth])!r}"
                )
    return {context: _normalised(name, context, row, allowed) for context, row in known.items()}


def _normalised(name: str, context: Path, row: tuple[float, ...], allowed: Rational) -> Row:
    mass, shares = _shares(row)
    if abs(mass - 1) > allowed:
        raise NotADistribution(
            f"the {name}'s row after {context_key(context)!r} must sum to 1, it sums to "
            f"{float(mass)}"
        )
    return shares


@lru_cache(maxsize=256)
def _shares(row: tuple[float, ...]) -> tuple[Rational, Row]:
    """Return the exact sum of a row, and the row divided by it; an empty row for a sum of 0."""
    weights = tuple(map(exactly, row))
    mass = total(weights)
    return mass, normalised(weights) if mass else ()


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


# --- stories as tensors ---------------------------------------------------------------------


def _in_force(story: Story) -> Story:
    """Return the iterations of a story since the last point that no block spans."""
    first = written = end = 0
    for number, each in enumerate(story, 1):
        end = max(end, written + len(each.paths[0]))
        written += len(each.emitted)
        if written >= end:
            first = number
    return story[first:]


def _state(stories: Sequence[Story]) -> dict[str, Tensor]:
    """Return the stories as JSON, [B, N] bytes padded by spaces, with floats to the last bit."""
    texts = [json.dumps([[*vars(each).values()] for each in story]) for story in stories]
    longest = max(map(len, texts))
    rows = [list(text.ljust(longest).encode()) for text in texts]
    return {"story": torch.tensor(rows, dtype=torch.uint8)}


def _stories(state: Mapping[str, Tensor] | None, rows: int) -> list[Story]:
    """Return the story of each row. Raises `WrongShape` for an invalid state of this verifier."""
    if state is None:
        return [()] * rows
    if set(state) != {"story"} or len(state["story"]) != rows:
        raise WrongShape(
            f"the state must be the 'story' that was left of each of the {rows} rows; "
            f"got {', '.join(f'{name} {list(each.shape)}' for name, each in state.items())}"
        )
    told = (_frozen(json.loads(bytes(row))) for row in state["story"].tolist())
    return [tuple(Iteration(*each) for each in story) for story in told]


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
