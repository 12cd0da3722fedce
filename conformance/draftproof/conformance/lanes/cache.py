"""Cache of laws: the latest laws of one adapter, and exact laws of future requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from draftproof.conformance.lanes.exact import ExactLaw
from draftproof.conformance.lanes.exchange import Asked
from draftproof.conformance.lanes.probe import ProbedLaw
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Program
from draftproof.reference.rational import Rational

_MOST_OUTCOMES = 200_000
"""Maximum number of outcomes in the cache: some hundred megabytes."""

_MOST_TOGETHER = 128
"""Maximum number of requests of one walk, including those of later tasks: enough for one or ten
tasks."""

Probed = Sequence[Sequence[Asked]]
"""Requests that are probed together."""

Coming = Iterable[tuple[Sequence[Asked], Declaration]]
"""Requests of later tasks, each with the declaration of its dtype."""

_COMING: ContextVar[Callable[[], Coming]] = ContextVar("coming", default=tuple)


class LawCache:
    """Latest laws of one adapter, by lane: a campaign needs some of them again."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self._laws: dict[Hashable, Any] = {}
        self._sizes: deque[tuple[Hashable, int]] = deque()
        self._refused: set[Hashable] = set()
        self._outcomes = 0

    def get(self, program: Program, rows: Sequence[Asked]) -> ExactLaw[Any] | None:
        """Return the law of a request, None if it is unknown or of a different adapter."""
        if program.adapter is not self.adapter:
            return None
        return self._laws.get(_key(rows, program.declared))

    def get_probed(
        self, program: Program, requests: Probed, shares: Sequence[Rational]
    ) -> Sequence[ProbedLaw[Any]] | None:
        """Return the laws of requests that were probed together, with these shares of a law."""
        if program.adapter is not self.adapter:
            return None
        return self._laws.get(_key_of_probed(requests, shares, program.declared))

    def ahead(self, program: Program, asked: Sequence[Sequence[Asked]]) -> list[Sequence[Asked]]:
        """Return the future requests that resemble the asked ones and whose laws are still unknown.

        It excludes refused requests, and all requests of a different adapter.
        """
        if program.adapter is not self.adapter or self is not _IN_USE.get():
            return []
        declared = program.declared
        forms = {_form_of_request(rows) for rows in asked}
        there = {*self._laws, *self._refused, *(_key(rows, declared) for rows in asked)}
        coming = {
            _key(rows, declared): rows
            for rows, own in _COMING.get()()
            if own == declared and _form_of_request(rows) in forms
        }
        return [rows for key, rows in coming.items() if key not in there][
            : max(_MOST_TOGETHER - len(asked), 0)
        ]

    def refuse(self, program: Program, ahead: Sequence[Sequence[Asked]]) -> None:
        """Stop computing the laws of requests together with others."""
        self._refused |= {_key(rows, program.declared) for rows in ahead}

    def keep(self, program: Program, rows: Sequence[Asked], law: ExactLaw[Any]) -> None:
        """Store a law of this adapter, and forget the oldest ones."""
        self._store(program, _key(rows, program.declared), law, len(law.law))

    def keep_probed(
        self,
        program: Program,
        requests: Probed,
        shares: Sequence[Rational],
        laws: Sequence[ProbedLaw[Any]],
    ) -> None:
        """Store laws of this adapter that were probed together, and forget the oldest ones.

        Which rows shared the calls decides how many were run, so no law is stored alone.
        """
        key = _key_of_probed(requests, shares, program.declared)
        self._store(program, key, laws, sum(len(each.law) for each in laws))

    def _store(self, program: Program, key: Hashable, known: Any, outcomes: int) -> None:
        if program.adapter is not self.adapter:
            return
        self._laws[key] = known
        self._sizes.append((key, outcomes))
        self._outcomes += outcomes
        while self._outcomes > _MOST_OUTCOMES:
            first, outcomes = self._sizes.popleft()
            self._laws.pop(first, None)
            self._outcomes -= outcomes


_IN_USE: ContextVar[LawCache | None] = ContextVar("law cache", default=None)


def cache_for(adapter: Adapter) -> LawCache:
    """Return the cache in use, or an empty one of this adapter if there is none."""
    return _IN_USE.get() or LawCache(adapter)


@contextmanager
def caching(laws: LawCache) -> Iterator[None]:
    """Reuse the laws in the cache of its adapter instead of computing them again."""
    token = _IN_USE.set(laws)
    try:
        yield
    finally:
        _IN_USE.reset(token)


@contextmanager
def foreseeing(coming: Callable[[], Coming]) -> Iterator[None]:
    """Compute laws of later requests early, if one walk can include them at little cost."""
    token = _COMING.set(coming)
    try:
        yield
    finally:
        _COMING.reset(token)


def _key(rows: Sequence[Asked], declared: Declaration) -> Hashable:
    return *rows, declared


def _key_of_probed(requests: Probed, shares: Sequence[Rational], declared: Declaration) -> Hashable:
    return tuple(map(tuple, requests)), tuple(shares), declared


def _form_of_request(rows: Sequence[Asked]) -> Hashable:
    """Return the form shared by requests that one walk can take: the shapes of their tensors."""
    first = rows[0][0]
    longest = max(instance.length for instance, _ in rows)
    return len(rows), first.vocabulary, first.drafts, first.branching, longest
