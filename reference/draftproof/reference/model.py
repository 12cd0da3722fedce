"""The input of a verifier: a target and a draft, each a next-token law for every context."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Self

from draftproof.reference.errors import (
    InvalidInput,
    MissingContext,
    NotADistribution,
    TokenOutOfRange,
    TooLarge,
    Unsupported,
    WrongShape,
)
from draftproof.reference.law import Law
from draftproof.reference.rational import ONE, Rational, rationals, readable, total

MOST_OUTCOMES = 10_000
"""The largest vocabulary of an instance in a file."""

MOST_LENGTH = 200
"""The largest draft length of an instance in a file."""

MOST_ROW_DIGITS = 20_000
"""Maximum number of digits of all distinct denominators of a row in a file, added up."""

Path = tuple[int, ...]
Row = tuple[Rational, ...]


@dataclass(frozen=True)
class Model:
    """The law of the next token in every context that the model knows.

    `rows` maps a context to its row of V probabilities. A model with `context_free` set has one
    row, at the empty context, and uses it everywhere. A row in `modified` replaces the model's own:
    a stateful verifier leaves such rows. Raises `WrongShape`, `NotRational`, `NotADistribution` or
    `TokenOutOfRange`, naming the context.
    """

    __repr__ = readable

    name: str
    vocabulary: int
    rows: Mapping[Path, Row]
    context_free: bool = False
    modified: Mapping[Path, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.vocabulary < 1:
            raise WrongShape(f"the vocabulary size must be at least 1, got {self.vocabulary}")
        if self.context_free and set(self.rows) != {()}:
            raise WrongShape(f"a context-free {self.name} has one row, at the empty context")
        for name in ("rows", "modified"):
            rows: Mapping[Path, Row] = getattr(self, name)
            checked = {self._in_range(c): self._row(c, row) for c, row in rows.items()}
            object.__setattr__(self, name, checked)

    @cached_property
    def _hash(self) -> int:
        rows, modified = frozenset(self.rows.items()), frozenset(self.modified.items())
        return hash((self.name, self.vocabulary, self.context_free, rows, modified))

    def __hash__(self) -> int:
        return self._hash

    def __call__(self, context: Path) -> Row:
        """Return the row at `context`.

        Raises `MissingContext` if there is no row, `TokenOutOfRange` for a token outside the
        vocabulary.
        """
        self._in_range(context)
        if context in self.modified:
            return self.modified[context]
        key = () if self.context_free else context
        if key not in self.rows:
            raise MissingContext(
                f"the {self.name} has no row for {_shown(context)}: "
                f"it has rows for {len(self.rows)} contexts of at most "
                f"{max(map(len, self.rows), default=0)} tokens"
            )
        return self.rows[key]

    def joint(self, path: Path) -> Rational:
        """Return the probability that the model's text starts with `path`."""
        product = ONE
        for i, token in enumerate(self._in_range(path)):
            product *= self(path[:i])[token]
            if product == 0:
                break
        return product

    def after(self, prefix: Path) -> Self:
        """Return the model of the text that follows `prefix`."""
        if not prefix:
            return self
        rows = self.rows if self.context_free else _below(prefix, self.rows)
        return self._with(rows, _below(prefix, self.modified))

    def overridden(self, rows: Mapping[Path, Row]) -> Self:
        """Return the same model with different rows at the given contexts."""
        checked = {self._in_range(c): self._row(c, row) for c, row in rows.items()}
        return self._with(self.rows, {**self.modified, **checked})

    def text(self, length: int) -> Law[Path]:
        """Return the law of the model's first `length` tokens."""
        law: Law[Path] = Law.certain(())
        for _ in range(length):
            law = law.then(
                lambda context: Law({(*context, t): w for t, w in enumerate(self(context))})
            )
        return law

    def reachable(self, depth: int) -> Iterator[Path]:
        """Yield the contexts of at most `depth` tokens that have positive probability."""
        level: list[Path] = [()]
        for size in range(depth + 1):
            yield from level
            if size < depth:
                level = [(*c, t) for c in level for t, w in enumerate(self(c)) if w != 0]

    def _with(self, rows: Mapping[Path, Row], modified: Mapping[Path, Row]) -> Self:
        """Return the model with rows that have been checked already."""
        made = copy(self)
        vars(made).pop("_hash", None)
        vars(made).update(rows=rows, modified=modified)
        return made

    def _in_range(self, context: Path) -> Path:
        for token in context:
            if not 0 <= token < self.vocabulary:
                raise TokenOutOfRange(
                    f"token {token} of {_shown(context)} in the {self.name} "
                    f"is not in 0..{self.vocabulary - 1}"
                )
        return context

    def _row(self, context: Path, row: Sequence[object]) -> Row:
        where = f"the {self.name}'s row at {_shown(context)}"
        if len(row) != self.vocabulary:
            raise WrongShape(f"{where} must have {self.vocabulary} entries, it has {len(row)}")
        try:
            weights = rationals(row)
        except InvalidInput as error:
            raise type(error)(f"{where}: {error}") from None
        if min(weights) < 0:
            token, weight = next(each for each in enumerate(weights) if each[1] < 0)
            raise NotADistribution(f"{where} gives token {token} the negative weight {weight}")
        if total(weights) != 1:
            raise NotADistribution(f"{where} must sum to 1, it sums to {total(weights)}")
        return weights


@dataclass(frozen=True)
class Instance:
    """A target, a draft, and the size of the drafts: K paths of L tokens.

    `scheme` says how the tokens after one context are drawn together (see `drafting`).
    `drafts` is K. Without `branching`, K tokens are drawn at the root and each goes on as a
    separate path; with it, branching[d] tokens are drawn after every context of d drafted tokens,
    and K is their product.

    Raises `WrongShape` for sizes that do not fit together, and `MissingContext` at once where a row
    that one iteration can need is missing: the target's at every context of at most
    L tokens that the draft or the target can write, the draft's at every context of fewer than
    L tokens that the draft can write.
    """

    __repr__ = readable

    target: Model
    draft: Model
    length: int
    drafts: int = 1
    scheme: str = "iid"
    branching: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.target.vocabulary != self.draft.vocabulary:
            raise WrongShape(
                f"target and draft must share a vocabulary, the target has "
                f"{self.target.vocabulary} tokens and the draft {self.draft.vocabulary}"
            )
        if self.length < 1:
            raise WrongShape(f"the draft length must be at least 1, got {self.length}")
        if self.drafts < 1:
            raise WrongShape(f"the number of drafts must be at least 1, got {self.drafts}")
        if self.branching:
            self._require_tree()
        # One row that serves everywhere is never missing, however many contexts there are.
        if not self.draft.context_free:
            deque(self.draft.reachable(self.length), maxlen=0)
        if not self.target.context_free:
            for model in (self.draft, self.target):
                for context in model.reachable(self.length):
                    self.target(context)

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of tokens drawn together after a context, by the context's depth."""
        return self.branching or (self.drafts, *(1,) * (self.length - 1))

    @property
    def vocabulary(self) -> int:
        """The vocabulary size V."""
        return self.target.vocabulary

    def after(self, prefix: Path) -> Instance:
        """Return the instance that remains once `prefix` is written.

        Raises `MissingContext` where the models do not reach that far.
        """
        try:
            return replace(self, target=self.target.after(prefix), draft=self.draft.after(prefix))
        except MissingContext as error:
            raise MissingContext(f"after {_shown(prefix)}, {error}") from None

    def _require_tree(self) -> None:
        if min(self.branching) < 1:
            raise WrongShape(f"a branching factor is at least 1, got {list(self.branching)}")
        if len(self.branching) != self.length:
            raise WrongShape(
                f"branching must have one factor for each of the {self.length} drafted tokens, "
                f"got {list(self.branching)}"
            )
        if prod(self.branching) != self.drafts:
            raise WrongShape(
                f"branching {list(self.branching)} makes {prod(self.branching)} paths, "
                f"'drafts' says {self.drafts}"
            )


def instance_from_json(document: Any) -> Instance:
    """Read an instance from its JSON form.

    For example:

        {"vocabulary": 2, "length": 2, "drafts": 1, "scheme": "iid",
         "target": ["1/3", "2/3"], "draft": {"": ["2/3", "1/3"], "0": [...], "1": [...]}}

    A model is one row (context-free) or rows by context, a context being its tokens joined by
    commas. The scheme "tree" is "iid" with "branching". Every scheme may have "branching"; then
    "drafts" may be left out. Raises the kind of `InvalidInput` that fits, and `TooLarge` beyond
    `MOST_OUTCOMES`, `MOST_LENGTH` or `MOST_ROW_DIGITS`.
    """
    if not isinstance(document, dict):
        raise WrongShape(f"an instance is a JSON object, got {type(document).__name__}")
    known = {"vocabulary", "length", "drafts", "scheme", "branching", "target", "draft"}
    for key in ("vocabulary", "length", "target", "draft"):
        if key not in document:
            raise WrongShape(f"the instance has no {key!r}")
    if unknown := sorted(set(document) - known, key=str):
        raise WrongShape(f"unknown key {unknown[0]!r}; an instance has {', '.join(sorted(known))}")
    scheme = document.get("scheme", "iid")
    if not isinstance(scheme, str):
        raise WrongShape(f"'scheme' must be a string, got {scheme!r}")
    branching = document.get("branching", [])
    if not isinstance(branching, list) or not all(type(width) is int for width in branching):
        raise WrongShape(f"'branching' must be a list of whole numbers, got {branching!r}")
    if scheme == "tree" and not branching:
        raise WrongShape("the scheme 'tree' needs 'branching', one factor for each drafted token")
    sizes = {"drafts": prod(branching[:MOST_LENGTH]), **document}
    _require_sizes(sizes)
    return Instance(
        _model_from_json("target", sizes["vocabulary"], document["target"]),
        _model_from_json("draft", sizes["vocabulary"], document["draft"]),
        length=sizes["length"],
        drafts=sizes["drafts"],
        scheme="iid" if scheme == "tree" else scheme,
        branching=tuple(branching),
    )


def _require_sizes(sizes: Mapping[str, Any]) -> None:
    """Refuse invalid sizes, and sizes above the limits for files."""
    for key in ("vocabulary", "length", "drafts"):
        if type(sizes[key]) is not int:
            raise WrongShape(f"{key!r} must be a whole number, got {sizes[key]!r}")
    for key, most in (("vocabulary", MOST_OUTCOMES), ("length", MOST_LENGTH)):
        if sizes[key] > most:
            raise TooLarge(f"{key!r} is at most {most:,} in a file, got {sizes[key]:,}")


def instance_to_json(instance: Instance) -> dict[str, Any]:
    """Return the JSON form of an instance."""
    is_tree = instance.scheme == "iid" and instance.branching
    return {
        "vocabulary": instance.vocabulary,
        "length": instance.length,
        "drafts": instance.drafts,
        "scheme": "tree" if is_tree else instance.scheme,
        **({"branching": list(instance.branching)} if instance.branching else {}),
        "target": _model_to_json(instance.target),
        "draft": _model_to_json(instance.draft),
    }


def context_key(context: Path) -> str:
    """Return the JSON key of a context: its tokens joined by commas."""
    return ",".join(map(str, context))


def context_from_key(key: str) -> Path:
    """Return the context of a JSON key. Raises `WrongShape` if the key is invalid."""
    try:
        context = tuple(int(token) for token in key.split(",")) if key else ()
    except ValueError:
        context = None
    if context is None or context_key(context) != key:
        raise WrongShape(f'a context is tokens joined by commas, such as "0,1", got {key!r}')
    return context


def _model_from_json(name: str, vocabulary: int, document: Any) -> Model:
    if isinstance(document, list):
        _require_short(name, document)
        return Model(name, vocabulary, {(): tuple(document)}, context_free=True)
    if not isinstance(document, dict):
        raise WrongShape(
            f"the {name} is one row or an object of rows by context, got {type(document).__name__}"
        )
    for key, row in document.items():
        if not isinstance(key, str):
            raise WrongShape(f"the {name}'s contexts must be strings, got {key!r}")
        if not isinstance(row, list):
            raise WrongShape(f"the {name}'s row at {key!r} must be a list, got {row!r}")
    for row in document.values():
        _require_short(name, row)
    rows = {context_from_key(key): tuple(row) for key, row in document.items()}
    return Model(name, vocabulary, rows)


def _require_short(name: str, row: list[Any]) -> None:
    """Refuse a row whose common denominator may be so long that sums take minutes."""
    written = {
        each.rpartition("/")[2] if "/" in each else each.rpartition(".")[2].translate(_ANY_ZERO)
        for each in row
        if isinstance(each, str) and ("/" in each or "." in each)
    }
    digits = sum(map(len, written))
    if digits > MOST_ROW_DIGITS:
        raise TooLarge(
            f"the denominators of a row have at most {MOST_ROW_DIGITS:,} digits together, those of "
            f"a row of the {name} have {digits:,}"
        )


# Decimals of one length have one denominator.
_ANY_ZERO = dict.fromkeys(map(ord, "123456789"), "0")


def _model_to_json(model: Model) -> Any:
    if model.modified:
        raise Unsupported(f"the {model.name} carries modified rows, which have no JSON form")
    rows = {context_key(c): [str(weight) for weight in row] for c, row in model.rows.items()}
    return rows[""] if model.context_free else rows


def _below(prefix: Path, rows: Mapping[Path, Row]) -> dict[Path, Row]:
    depth = len(prefix)
    return {context[depth:]: row for context, row in rows.items() if context[:depth] == prefix}


def _shown(context: Path) -> str:
    return f"context {context_key(context)!r}" if context else "the empty context"
