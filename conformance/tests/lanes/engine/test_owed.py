from __future__ import annotations

from dataclasses import replace
from math import atanh, log, tanh

import numpy
import pytest

from draftproof.conformance.checkpoint.rows import KnownRows
from draftproof.conformance.lanes.engine.asking import SamplingParams
from draftproof.conformance.lanes.engine.owed import DRAW, owed_rows
from draftproof.reference.rational import ONE, rational, rationals


def rows(target: tuple[str, ...] = ("1/2", "3/10", "1/5", "0"), **changes: object) -> KnownRows:
    row = rationals(target)
    contexts = [(s,) for s in range(5)]
    made = KnownRows(
        kind="memory-1",
        vocabulary=8,
        memory=1,
        temperature=ONE,
        texts={3: "a", 4: "b", 5: "c", 7: "d"},
        target=dict.fromkeys(contexts, row),
        draft=dict.fromkeys(contexts, rationals(["1/4"] * 4)),
        bounds={"float32": 1e-6, "bfloat16": 1e-6},
        dtype="float32",
        seed=0,
        special={},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def owed(sampling: SamplingParams, **changes: object) -> list[float] | None:
    found = owed_rows(rows(**changes), sampling)  # type: ignore[arg-type]
    return found[(1,)].row.tolist() if found else None


def test_the_default_is_the_row_itself() -> None:
    assert owed(SamplingParams()) == pytest.approx([0.5, 0.3, 0.2, 0])


def test_settings_process_the_row_as_they_say() -> None:
    squared = numpy.array([0.25, 0.09, 0.04, 0])
    assert owed(SamplingParams(temperature=0.5)) == pytest.approx(squared / squared.sum())
    assert owed(SamplingParams(top_k=2)) == pytest.approx([0.625, 0.375, 0, 0])
    assert owed(SamplingParams(top_p=0.7)) == pytest.approx([0.625, 0.375, 0, 0])
    assert owed(SamplingParams(min_p=0.5)) == pytest.approx([0.625, 0.375, 0, 0])
    assert owed(SamplingParams(allowed=frozenset({4, 5, 7}))) == pytest.approx([0, 0.6, 0.4, 0])
    assert owed(SamplingParams(logit_bias={4: log(2)})) == pytest.approx(
        [5 / 13, 6 / 13, 2 / 13, 0]
    )


def test_a_filter_comes_behind_the_temperature() -> None:
    flat = numpy.array([0.5, 0.3, 0.2]) ** 0.5
    flat /= flat.sum()
    due = [*(flat[:2] / flat[:2].sum()), 0, 0]
    assert owed(SamplingParams(temperature=2, top_p=float(flat[0] + 0.1))) == pytest.approx(due)


def test_a_checkpoint_of_another_temperature_says_its_rows_there() -> None:
    warm = {"temperature": rational("7/10")}
    assert owed(SamplingParams(temperature=0.7), **warm) == pytest.approx([0.5, 0.3, 0.2, 0])


@pytest.mark.parametrize(
    ("target", "sampling"),
    [
        (("2/5", "3/10", "3/10", "0"), SamplingParams(top_k=2)),
        (("1/2", "3/10", "1/5", "0"), SamplingParams(top_p=0.8)),
        (("1/2", "1/4", "1/4", "0"), SamplingParams(min_p=0.5)),
        (("1/2", "3/10", "1/5", "0"), SamplingParams(allowed=frozenset({7}))),
    ],
)
def test_nothing_is_owed_where_rounding_decides(
    target: tuple[str, ...], sampling: SamplingParams
) -> None:
    assert owed_rows(rows(target), sampling) == {}


def test_equal_words_without_probability_leave_top_k_clear() -> None:
    assert owed_rows(rows(("1/2", "1/2", "0", "0")), SamplingParams(top_k=3)) != {}


def test_tolerance_grows_with_the_factor_of_logits() -> None:
    plain, cold = (
        owed_rows(rows(), SamplingParams(temperature=t))[(1,)].tolerance for t in (1, 0.5)
    )
    assert plain == pytest.approx(1e-6 + DRAW, rel=1e-6)
    assert cold == pytest.approx(tanh(2 * atanh(1e-6)) + DRAW, rel=1e-6)
    coarse = owed_rows(rows(), SamplingParams(temperature=0.5), dtype="bfloat16")[(1,)].tolerance
    assert coarse > 1e-3


def test_suspects_are_rows_that_differ() -> None:
    suspects = owed_rows(rows(), SamplingParams(top_k=2))[(1,)].suspects
    assert {*suspects} == {
        "the target's row without the request's settings",
        "the draft's row without the request's settings",
    }
    assert {*owed_rows(rows(), SamplingParams())[(1,)].suspects} == {
        "the draft's row",
        "the draft's row without the request's settings",
    }
