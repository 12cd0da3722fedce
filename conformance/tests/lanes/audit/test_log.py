"""Logs: what a line says about its events, and what is wrong with a line."""

from __future__ import annotations

import io
import json
from math import isnan, log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftproof.conformance.lanes.audit.log import EVENTS, MOST_BYTES, Audited, read_log
from draftproof.conformance.lanes.audit.log import UnreadableLog as Unreadable


def read(*lines: Any) -> list[Audited]:
    content = "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines)
    return [*read_log(io.BytesIO(content.encode()), "log")]


def events(line: dict[str, Any]) -> dict[str, Any]:
    (found,) = read(line)
    return {
        name: (chance, came)
        for name, chance, came in zip(EVENTS, found.chances, found.happened, strict=True)
        if not isnan(chance)
    }


def test_a_row_says_its_events() -> None:
    row = [0.1, 0.2, 0.0, 0.7, 0.00003, 0.00002]
    chance = pytest.approx
    found = events({"token": 3, "row": row, "favourite": 1})
    assert found == {
        "draft": (chance(0.2, rel=1e-4), False),
        "target": (chance(0.7, rel=1e-4), True),
        "tail": (chance(5e-5, rel=1e-4), False),
        "support": (0.0, False),
    }
    assert events({"token": 2, "row": row})["support"] == (0.0, True)
    assert events({"token": 4, "row": row})["tail"][1]
    assert "support" not in events({"token": 0, "row": [0.5, 0.5]})
    assert "tail" not in events({"token": 0, "row": [0.5, 0.5]})


def test_a_top_with_a_rest_says_its_events() -> None:
    top = {"3": log(0.7), "1": log(0.2)}
    found = events({"token": 9, "top": top, "rest": 0.1, "favourite": 1})
    assert found["draft"] == (pytest.approx(0.2), False)
    assert found["target"] == (pytest.approx(0.7), False)
    assert found["tail"] == (pytest.approx(0.1), True)
    assert "support" not in found
    # Nobody knows the probability of a favourite that is not listed.
    assert "draft" not in events({"token": 9, "top": top, "rest": 0.1, "favourite": 8})


def test_what_a_filter_cuts_off_is_excluded() -> None:
    whole = {"3": log(0.7), "1": log(0.3)}
    assert events({"token": 9, "top": whole, "rest": 0})["support"] == (0.0, True)
    # Printed logarithms are rounded: without a rest, little may be left.
    chance, came = events({"token": 9, "top": whole})["support"]
    assert (chance, came) == (pytest.approx(1e-6), True)
    cut = {**whole, "2": None, "4": -9999.0}
    assert events({"token": 2, "top": cut, "rest": 0})["support"] == (0.0, True)
    assert events({"token": 4, "top": cut, "rest": 0})["support"] == (0.0, True)
    assert events({"token": 3, "top": cut, "rest": 0})["support"] == (0.0, False)


@given(
    st.lists(st.integers(1, 10**4), min_size=2, max_size=8),
    st.integers(0, 7),
    st.integers(0, 7),
)
def test_a_row_and_its_logarithms_say_the_same(masses: list[int], x: int, guess: int) -> None:
    row = [each / sum(masses) for each in masses]
    x, guess = x % len(row), guess % len(row)
    top = {str(token): log(each) for token, each in enumerate(row)}
    of_row = events({"token": x, "row": row, "favourite": guess})
    of_top = events({"token": x, "top": top, "rest": 0, "favourite": guess})
    for name in ("draft", "target", "tail"):
        assert (name in of_row) == (name in of_top)
        if name in of_row:
            assert of_top[name] == (pytest.approx(of_row[name][0]), of_row[name][1])


@given(
    st.lists(st.integers(1, 3), min_size=3, max_size=8),
    st.integers(0, 7),
    st.integers(0, 7),
    st.integers(1, 7),
    st.booleans(),
)
def test_which_of_equals_is_listed_does_not_matter(
    masses: list[int], x: int, guess: int, listed: int, is_said: bool
) -> None:
    """Servers list the drawn token first among those that are as probable."""
    row = [each / sum(masses) for each in masses]
    x, guess, listed = x % len(row), guess % len(row), min(listed, len(row) - 1)

    def line(first: int) -> dict[str, Any]:
        order = sorted(range(len(row)), key=lambda token: (-row[token], token != first, token))
        rest = {"rest": sum(row[token] for token in order[listed:])} if is_said else {}
        top = {str(token): log(row[token]) for token in order[:listed]}
        return {"token": x, "top": top, "favourite": guess, **rest}

    drawn, others = events(line(x)), [events(line(token)) for token in range(len(row))]
    for other in others:
        assert other.keys() == drawn.keys()
        for name, (chance, came) in other.items():
            assert drawn[name] == (pytest.approx(chance), came)


def test_equal_favourites_are_one_event() -> None:
    row = [0.4, 0.4, 0.2]
    top = {str(token): log(each) for token, each in enumerate(row)}
    for token, came in enumerate((True, True, False)):
        for form in ({"row": row}, {"top": top, "rest": 0}):
            assert events({"token": token, **form})["target"] == (pytest.approx(0.8), came)


@given(st.floats(0.001, 0.999), st.booleans(), st.booleans())
def test_a_stripped_line_says_the_same_and_has_no_token(
    chance: float,
    came: bool,  # drawn
    speculation: bool,
) -> None:
    (found,) = read(
        {
            "token": 0 if came else 1,
            "row": [chance, 1 - chance],
            "favourite": 0,
            "speculation": speculation,
        }
    )
    line = json.loads(found.line())
    assert line.keys() == {"events", "speculation"}
    (again,) = read(line)
    assert again.line() == found.line()
    assert again.speculation is speculation


ROW = {"token": 0, "row": [0.5, 0.5]}
TOP = {"token": 0, "top": {"0": -0.1}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "log, line 2: .*; a line is like"),
        ("[1]", "log, line 2: it is no object"),
        ({**ROW, "prompt": "secret"}, "unknown 'prompt'; a line is like"),
        ({**ROW, "draft_token": 1}, "unknown 'draft_token'; a log must not have what verification"),
        ({**ROW, "accepted": True}, "the token depends on it"),
        ({"token": 0}, "it has neither row nor top"),
        ({**ROW, **TOP}, "it has row and top"),
        ({**ROW, "token": -1}, "token is a token id, got -1"),
        ({**ROW, "token": True}, "token is a token id, got True"),
        ({**ROW, "token": 2}, "token is below 2, as long as row, got 2"),
        ({**ROW, "favourite": 2}, "favourite is below 2"),
        ({**ROW, "favourite": "a"}, "favourite is a token id, got 'a'"),
        ({**ROW, "rest": 0.1}, "rest belongs to top"),
        ({**ROW, "speculation": 1}, "speculation is true or false, got 1"),
        ({"token": 0, "row": []}, r"row is a list of probabilities, got \[\]"),
        ({"token": 0, "row": [0.5, "a"]}, "row is a list of probabilities"),
        ({"token": 0, "row": [-0.5, 1.5]}, "row has -0.5; give probabilities that sum to 1"),
        ({"token": 0, "row": [0.5, 0.4]}, "row sums to 0.9"),
        ({"token": 0, "top": {}}, "top has logarithms by token id, got {}"),
        ({"token": 0, "top": {"a": -1}}, "top has token ids as keys, got 'a'"),
        ({"token": 0, "top": {"0": 0.5}}, "natural logarithms of probabilities, got 0.5"),
        ({"token": 0, "top": {"0": -0.1, "00": -0.1}}, "top has a token twice"),
        ({**TOP, "rest": 0.5}, "top and rest sum to 1.40484, not to 1: top has natural logarithms"),
        ({**TOP, "rest": -1}, "rest is the probability of all others, got -1"),
        ({"events": {"draft": [0.2]}}, "draft is a probability and a truth value"),
        ({"events": {"draft": [1.2, True]}}, "draft is a probability and a truth value"),
        ({"events": {"other": [0.2, True]}}, "its events are some of draft, target, tail, support"),
        ({"events": {}, "token": 1}, "its events are some of"),
    ],
)
def test_what_a_line_has_wrong_is_told(line: Any, message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        read(ROW, line)


def test_a_line_without_an_end_is_refused() -> None:
    with pytest.raises(Unreadable, match="it has more than 16,777,216 bytes; log `top`"):
        [*read_log(io.BytesIO(b"1" * (MOST_BYTES + 9)), "log")]


def test_empty_lines_are_passed_over() -> None:
    assert len(read(ROW, "", ROW)) == 2


def test_a_top_with_the_drawn_token_beside_it_is_refused() -> None:
    """As servers add it: then whether a token is listed depends on what was drawn."""
    plain = {"token": 0, "top": {"0": log(0.5), "1": log(0.3)}}
    beside = {"token": 7, "top": {"0": log(0.5), "1": log(0.3), "7": log(0.01)}}
    with pytest.raises(Unreadable, match="top has the 2 most probable tokens, and the drawn one"):
        read(*[plain, beside] * 8)
    assert len(read(*[plain] * 8, *[{**beside, "token": 0}] * 8)) == 16
    # A token that is certain has the logarithm 0, and is not the least probable.
    sure = {"token": 0, "top": {"0": 0, "1": -20}}
    wide = {"token": 0, "top": {"0": 0, "1": -20, "7": -21}}
    assert len(read(*[plain, sure, wide] * 8)) == 24


def test_a_line_that_was_cut_off_is_left_out() -> None:
    told: list[str] = []
    content = f'{json.dumps(ROW)}\n{{"token":'.encode()
    assert len([*read_log(io.BytesIO(content), "log", told=told.append)]) == 1
    assert told == ["log, line 2: it was cut off, and is left out"]


def test_a_mark_of_utf8_is_passed_over() -> None:
    content = b"\xef\xbb\xbf" + json.dumps(ROW).encode()
    assert len([*read_log(io.BytesIO(content), "log")]) == 1


def test_no_token_has_thousands_of_digits() -> None:
    with pytest.raises(Unreadable, match="top has token ids as keys"):
        read({"token": 1, "top": {"9" * 5000: 0}})
