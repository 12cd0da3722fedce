"""The cache of exact laws: those of one adapter that were computed last, and those to come."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from draftproof.conformance.lanes.exact import ExactLaw
from draftproof.conformance.lanes.exchange import Asked
from draftproof.conformance.protocol.adapter import Adapter, Declaration

_MOST_OUTCOMES = 200_000
"""So many outcomes are kept in all: some hundred megabytes."""

_MOST_TOGETHER = 128
"""Requests that are asked for are walked with others up to so many in all: of one task, or ten."""

Coming = Iterable[tuple[Sequence[Asked], Declaration]]
"""Requests that tasks will ask for, each with what is declared of its dtype."""

_COMING: ContextVar[Callable[[], Coming]] = ContextVar("coming", default=tuple)


class LawCache:
    """The exact laws of one adapter that were computed last: a campaign asks for some again."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self._laws: dict[Hashable, ExactLaw[Any]] = {}
        self._refused: set[Hashable] = set()
        self._outcomes = 0

    def get(
        self, adapter: Adapter, rows: Sequence[Asked], declared: Declaration
    ) -> ExactLaw[Any] | None:
        """Return the law of a request, None where it is of another adapter or not known."""
        return self._laws.get(_key(rows, declared)) if adapter is self.adapter else None

    def ahead(
        self, adapter: Adapter, asked: Sequence[Sequence[Asked]], declared: Declaration
    ) -> list[Sequence[Asked]]:
        """Return requests to come that are like some that are asked, and whose laws are not known.

        There are none of another adapter, and none that were refused.
        """
        if adapter is not self.adapter or self is not _IN_USE.get():
            return []
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

    def refuse(self, ahead: Sequence[Sequence[Asked]], declared: Declaration) -> None:
        """Compute the laws of requests with no others' any more."""
        self._refused |= {_key(rows, declared) for rows in ahead}

    def keep(
        self, adapter: Adapter, rows: Sequence[Asked], declared: Declaration, law: ExactLaw[Any]
    ) -> None:
        """Keep a law of this adapter, and forget those that came first."""
        if adapter is not self.adapter:
            return
        self._laws[_key(rows, declared)] = law
        self._outcomes += len(law.law)
        while self._outcomes > _MOST_OUTCOMES:
            first = next(iter(self._laws))
            self._outcomes -= len(self._laws.pop(first).law)


_IN_USE: ContextVar[LawCache | None] = ContextVar("law cache", default=None)


def cache_for(adapter: Adapter) -> LawCache:
    """Return the cache that is in use, an empty one of this adapter if none is."""
    return _IN_USE.get() or LawCache(adapter)


@contextmanager
def caching(laws: LawCache) -> Iterator[None]:
    """Compute no law again that the cache has, of its adapter."""
    token = _IN_USE.set(laws)
    try:
        yield
    finally:
        _IN_USE.reset(token)


@contextmanager
def foreseeing(coming: Callable[[], Coming]) -> Iterator[None]:
    """Compute laws of requests ahead that are walked with others at little cost."""
    token = _COMING.set(coming)
    try:
        yield
    finally:
        _COMING.reset(token)


def _key(rows: Sequence[Asked], declared: Declaration) -> Hashable:
    return *rows, declared


def _form_of_request(rows: Sequence[Asked]) -> Hashable:
    """Return what requests have in common that are walked together: the shapes of their tensors."""
    first = rows[0][0]
    longest = max(instance.length for instance, _ in rows)
    return len(rows), first.vocabulary, first.drafts, first.branching, longest
