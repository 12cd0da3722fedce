"""Logs for an audit: the token at each place, and the target's row there.

Each line is one token:

    {"token": 3, "row": [0.1, 0.2, 0.0, 0.7], "favourite": 1, "speculation": true}
    {"token": 3, "top": {"3": -0.36, "1": -1.61}, "rest": 0.1}

`row` is the distribution from which the token is drawn, after temperature and filters. `top` has
the logarithms of its largest probabilities, by token id, and `rest` the probability of all others
together. `favourite` is the drafter's most probable token, known before the token is drawn.
`speculation` is false for tokens of a server that does not speculate, and true by default.

A bet is on an *event* that the row and the favourite determine before the token is known, and the
bet depends only on the event's probability. So an audit needs only the events: a stripped log has
no tokens and no rows:

    {"events": {"draft": [0.2, false], "target": [0.7, true]}, "speculation": true}
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import exp, inf, isfinite, log1p, nan
from typing import Any, BinaryIO

from draftproof.spec import FileTooLarge, MalformedDocument, parsed

DRAFT, TARGET, TAIL, SUPPORT = EVENTS = ("draft", "target", "tail", "support")
"""Events: the token is the drafter's favourite; the target's favourite, or one of several equal
ones; a token of small probability; a token of probability zero."""

SMALL = 1e-4
"""Probability below which a token belongs to the tail."""

ROUNDED = 1e-6
"""Least probability of the tokens outside `top`, for lines without `rest`."""

OFF_BY = 1e-3
"""Largest distance of the sum of a row from 1."""

MOST_BYTES = 2**24
"""Maximum length of a line, in bytes."""

_RIGHT = 'a line is like {"token": 3, "top": {"3": -0.4, "1": -1.6}, "rest": 0.1, "favourite": 1}'


class UnreadableLog(ValueError):
    """Error of a log that cannot be read; the message names the line and what is valid."""


@dataclass(frozen=True)
class Audited:
    """Events of one token: the probability of each, and which of them happened."""

    chances: tuple[float, ...]
    """In the order of `EVENTS`; nan if the line does not state the chance, or nothing can
    happen."""
    happened: tuple[bool, ...]
    speculation: bool = True

    def line(self) -> str:
        """Return the line of a stripped log."""
        told = {
            name: [chance, came]
            for name, chance, came in zip(EVENTS, self.chances, self.happened, strict=True)
            if chance == chance
        }
        return json.dumps({"events": told, "speculation": self.speculation})


def read_log(
    file: BinaryIO, name: str, *, told: Callable[[str], object] = lambda _: None
) -> Iterator[Audited]:
    """Yield the events of each line. Raises `UnreadableLog`, with the name of the file.

    A last line that was cut off is left out, with a message to `told`.
    """
    number, tops = 0, _Tops()
    while line := file.readline(MOST_BYTES + 1):
        number += 1
        where = f"{name}, line {number}"
        if len(line) > MOST_BYTES:
            raise UnreadableLog(f"{where}: it has more than {MOST_BYTES:,} bytes; log `top`")
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        if not line.strip():
            continue
        try:
            document = parsed(line)
        except (FileTooLarge, MalformedDocument, ValueError) as error:
            if not line.endswith(b"\n") and number > 1:
                told(f"{where}: it was cut off, and is left out")
                return
            raise UnreadableLog(f"{where}: {error}; {_RIGHT}") from None
        found = _read(document, where)
        tops.add(document, where)
        yield found


@dataclass
class _Tops:
    """The lengths of `top` so far: the number of most probable tokens, without the drawn one."""

    lines: Counter[int] = field(default_factory=Counter)
    last: Counter[int] = field(default_factory=Counter)
    """Number of lines whose token is the least probable in `top`."""

    def add(self, document: Mapping[str, Any], where: str) -> None:
        """Raise `UnreadableLog` if the drawn token was added to the most probable tokens."""
        if not (top := document.get("top")):
            return
        least = min(top, key=lambda each: -inf if top[each] is None else top[each])
        self.lines[len(top)] += 1
        self.last[len(top)] += least == str(document["token"])
        if len(self.lines) != 2:
            return
        few, more = sorted(self.lines)
        is_beside = self.last[more] == self.lines[more] and self.lines[few] > self.last[few]
        if few > 1 and more == few + 1 and self.lines[more] >= _ENOUGH and is_beside:
            raise UnreadableLog(
                f"{where}: top has the {few} most probable tokens, and the drawn one as well: then "
                f"it depends on what was drawn; keep the {few} most probable"
            )


_ENOUGH = 8
"""Number of lines with one token more that exceeds coincidence."""


def _read(document: Any, where: str) -> Audited:
    if not isinstance(document, dict):
        raise UnreadableLog(f"{where}: it is no object; {_RIGHT}")
    if unknown := sorted(document.keys() - _KEYS):
        raise UnreadableLog(f"{where}: unknown {unknown[0]!r}; {_hint(unknown[0])}")
    speculation = document.get("speculation", True)
    if not isinstance(speculation, bool):
        raise UnreadableLog(f"{where}: speculation is true or false, got {speculation!r:.80}")
    ways = [each for each in ("row", "top", "events") if each in document]
    if len(ways) != 1:
        told = " and ".join(ways) or "neither row nor top"
        raise UnreadableLog(f"{where}: it has {told}; {_RIGHT}")
    if ways == ["events"]:
        return _stripped(document, where, speculation=speculation)
    token, favourite = _id(document.get("token"), f"{where}: token"), document.get("favourite")
    if favourite is not None:
        favourite = _id(favourite, f"{where}: favourite")
    events = _of_row if ways == ["row"] else _of_top
    found = events(document, token, favourite, where)
    chances = [min(chance, 1.0) if chance == chance else nan for chance, _ in found]
    return Audited(tuple(chances), tuple(came for _, came in found), speculation)


_KEYS = {"token", "row", "top", "rest", "favourite", "speculation", "events"}
_OF_STEP = ("accept", "reject", "draft_token", "drafted", "proposed")


def _hint(key: str) -> str:
    if any(each in key for each in _OF_STEP):
        return (
            "a log must not have what verification drew or decided in the same step: the token "
            "depends on it. `favourite` is the drafter's most probable token"
        )
    return _RIGHT


_Events = list[tuple[float, bool]]


def _of_row(document: Mapping[str, Any], token: int, favourite: int | None, where: str) -> _Events:
    row = document["row"]
    if not isinstance(row, list) or not row or not all(map(_is_number, row)):
        raise UnreadableLog(f"{where}: row is a list of probabilities, got {row!r:.80}")
    if "rest" in document:
        raise UnreadableLog(f"{where}: rest belongs to top: a row has all tokens")
    for name, value in (("token", token), ("favourite", favourite)):
        if value is not None and value >= len(row):
            raise UnreadableLog(f"{where}: {name} is below {len(row)}, as long as row, got {value}")
    least, total = min(row), sum(row)
    if least < 0 or abs(total - 1) > OFF_BY:
        told = f"has {least:.6g}" if least < 0 else f"sums to {total:.6g}"
        raise UnreadableLog(f"{where}: row {told}; give probabilities that sum to 1")
    chance = row[token] / total
    tail = sum(each for each in row if each < SMALL * total) / total
    best = max(row)
    return [
        (nan, False) if favourite is None else (row[favourite] / total, token == favourite),
        (best * row.count(best) / total, row[token] == best),
        (tail or nan, 0 < chance < SMALL),
        (0.0 if least == 0 else nan, chance == 0),
    ]


def _of_top(document: Mapping[str, Any], token: int, favourite: int | None, where: str) -> _Events:
    top = _top(document["top"], where)
    listed = sum(top.values())
    rest = document.get("rest")
    if rest is None:
        rest = max(1 - listed, ROUNDED)
    if not _is_number(rest) or rest < 0:
        raise UnreadableLog(f"{where}: rest is the probability of all others, got {rest!r:.80}")
    if abs(listed + rest - 1) > OFF_BY:
        raise UnreadableLog(
            f"{where}: top and rest sum to {listed + rest:.6g}, not to 1: top has natural "
            f"logarithms after temperature and filters, rest a probability"
        )
    # Which of some equals is listed may depend on the draw: at the end none of them is. What is
    # left for equals is known to some digits.
    least = min(top.values())
    if 0 < least <= 1.01 * rest + ROUNDED:
        rest += sum(each for each in top.values() if each == least)
        top = {key: each for key, each in top.items() if each != least}
    outside, chance = token not in top, top.get(token, 0.0)
    best = max(top.values(), default=nan)
    equals = sum(each == best for each in top.values())
    small = sum(each for each in top.values() if each < SMALL)
    has_zeros = 0.0 in top.values()
    # What is left out is as good as excluded, or it is the tail.
    excludes = rest < SMALL
    tail = small if excludes else small + rest
    return [
        (top[favourite], token == favourite) if favourite in top else (nan, False),
        (best * equals if top else nan, not outside and chance == best),
        (tail or nan, 0 < chance < SMALL or (outside and not excludes)),
        (
            rest if excludes else 0.0 if has_zeros else nan,
            (outside and excludes) or (not outside and chance == 0),
        ),
    ]


def _top(top: Any, where: str) -> dict[int, float]:
    """Return the probabilities of `top` by token id."""
    if not isinstance(top, dict) or not top:
        raise UnreadableLog(f"{where}: top has logarithms by token id, got {top!r:.80}")
    found = {}
    for key, value in top.items():
        if not (key.isascii() and key.isdigit() and len(key) < _LONG):
            raise UnreadableLog(f"{where}: top has token ids as keys, got {key!r:.80}")
        value = -inf if value is None else value
        if not (_is_number(value) or value == -inf) or value > log1p(OFF_BY):
            raise UnreadableLog(
                f"{where}: top has natural logarithms of probabilities, got {value!r:.80}"
            )
        found[int(key)] = min(exp(value), 1.0)
    if len(found) != len(top):
        raise UnreadableLog(f"{where}: top has a token twice")
    return found


_LONG = 19
"""Maximum number of digits of a token id."""


def _stripped(document: Mapping[str, Any], where: str, *, speculation: bool) -> Audited:
    events, others = document["events"], document.keys() - {"events", "speculation"}
    right = 'a stripped line is like {"events": {"draft": [0.2, false]}, "speculation": true}'
    if others or not isinstance(events, dict) or events.keys() - set(EVENTS):
        raise UnreadableLog(f"{where}: its events are some of {', '.join(EVENTS)}; {right}")
    chances, happened = [], []
    for name in EVENTS:
        found = events.get(name)
        is_pair = isinstance(found, list) and len(found) == 2 and isinstance(found[1], bool)
        if found is not None and not (is_pair and _is_number(found[0]) and 0 <= found[0] <= 1):
            raise UnreadableLog(f"{where}: {name} is a probability and a truth value; {right}")
        chances.append(nan if found is None else float(found[0]))
        happened.append(found is not None and found[1])
    return Audited(tuple(chances), tuple(happened), speculation)


def _id(value: Any, where: str) -> int:
    if type(value) is not int or value < 0:
        raise UnreadableLog(f"{where} is a token id, got {value!r:.80}; {_RIGHT}")
    return value


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)
