"""Lines of tokens: what is read, and what every wrong line is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from draftproof.conformance.checkpoint.chain import chain
from draftproof.conformance.checkpoint.writing import rows_of
from draftproof.conformance.lanes.engine import lines
from draftproof.conformance.lanes.engine.asking import Answer, SamplingParams
from draftproof.conformance.lanes.engine.lines import UnreadableTokens, read_tokens

ROWS = rows_of(chain(vocabulary=8, zeros=1), kind="memory-1", dtype="float32")

LINE = {"prompt_ids": [3], "token_ids": [4, 5]}


def file_of(folder: Path, *given: Any) -> Path:
    path = folder / "tokens.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in given))
    return path


def test_answers_are_parts_by_speculation_and_settings(tmp_path: Path) -> None:
    given = [
        LINE,
        LINE | {"speculation": "eagle", "steps": 1},
        LINE | {"speculation": False},
        LINE | {"temperature": 0.5, "min_p": 0.1},
        LINE | {"top_k": 4, "speculation": False},
    ]
    found = read_tokens(file_of(tmp_path, *given), ROWS)
    told = [(part.case, part.requirement, part.has_control) for part in found.parts]
    assert told == [
        ("drafted", "engine.lossless", True),
        ("eagle", "engine.lossless", True),
        ("drafted:temperature=0.5:min_p=0.1", "engine.parameters", False),
        ("control:top_k=4", "engine.parameters", False),
    ]
    assert found.parts[2].samplings == (SamplingParams(temperature=0.5, min_p=0.1),)
    (batch,) = found.answers["eagle", False]
    assert batch[1] == [Answer((4, 5), 1)]
    # The control of two parts is read for both.
    assert found.tokens == 12


def test_filters_that_are_off_are_plain_sampling(tmp_path: Path) -> None:
    given = [LINE | {"top_k": 0}, LINE | {"top_k": -1, "top_p": 1, "min_p": 0.0}, LINE]
    (part,) = read_tokens(file_of(tmp_path, *given), ROWS).parts
    assert part.samplings == (SamplingParams(),)


def test_no_two_kinds_of_answers_are_one_case(tmp_path: Path) -> None:
    given = [LINE | {"temperature": each} for each in (0.7, 0.7000001, 0.699999988079071)]
    found = read_tokens(file_of(tmp_path, *given), ROWS)
    assert len({part.case for part in found.parts}) == len(found.answers) == 3


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ([3], "line 1: it is no object"),
        (LINE | {"tokens": 3}, "line 1: unknown tokens; a line is like"),
        ({"token_ids": [3]}, "line 1: prompt_ids is a list of token ids, got None"),
        (LINE | {"prompt_ids": []}, "a prompt has at least 1 tokens, on which rows depend"),
        (LINE | {"token_ids": [3, 999]}, f"token_ids: ids are below {ROWS.vocabulary}, got 999"),
        (LINE | {"token_ids": [True]}, r"token_ids is a list of token ids, got \[True\]"),
        (LINE | {"speculation": "a b"}, "true, false or a name of letters and digits, got 'a b'"),
        (LINE | {"speculation": ""}, "true, false or a name of letters and digits, got ''"),
        (LINE | {"speculation": 1}, "true, false or a name of letters and digits, got '1'"),
        (LINE | {"speculation": None}, "true, false or a name of letters and digits, got 'None'"),
        (LINE | {"speculation": [1]}, r"true, false or a name of letters and digits, got '\[1\]'"),
        (LINE | {"steps": -1}, "steps is a number of passes, got -1"),
        (LINE | {"temperature": 0}, "temperature is a positive number up to 1,000,000, got 0"),
        (LINE | {"top_k": 2.5}, "top_k is a positive number up to 2,147,483,648, got 2.5"),
        (LINE | {"min_p": 2.0}, "min_p is a positive number up to 1, got 2.0"),
        (LINE | {"top_k": 2, "min_p": 0.1}, "top_k and min_p; engines differ in the order"),
        (LINE | {"token_ids": []}, "it has no tokens; a line is like"),
    ],
)
def test_a_wrong_line_is_told(tmp_path: Path, line: Any, told: str) -> None:
    with pytest.raises(UnreadableTokens, match=told):
        read_tokens(file_of(tmp_path, line), ROWS)


def test_what_is_no_file_of_lines_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreadableTokens, match="No such file"):
        read_tokens(tmp_path / "none.jsonl", ROWS)
    with pytest.raises(UnreadableTokens, match=r"tokens\.jsonl: it has no tokens"):
        read_tokens(file_of(tmp_path), ROWS)
    (tmp_path / "cut.jsonl").write_text(json.dumps(LINE) + '\n{"prompt_ids": [3')
    with pytest.raises(UnreadableTokens, match=r"cut\.jsonl, line 2: .*a line is like"):
        read_tokens(tmp_path / "cut.jsonl", ROWS)
    monkeypatch.setattr(lines, "MOST_TOKENS", 3)
    with pytest.raises(UnreadableTokens, match="it has more than 3 tokens; split it"):
        read_tokens(file_of(tmp_path, LINE, LINE), ROWS)
    monkeypatch.setattr(lines, "MOST_LENGTH", 20)
    with pytest.raises(UnreadableTokens, match="line 1: it has more than 20 bytes"):
        read_tokens(file_of(tmp_path, LINE), ROWS)
    monkeypatch.undo()
    monkeypatch.setattr(lines, "MOST_PARTS", 1)
    with pytest.raises(UnreadableTokens, match="it has 2 kinds of speculation and settings; 1 at"):
        read_tokens(file_of(tmp_path, LINE, LINE | {"top_k": 2}), ROWS)
