"""How long a campaign takes, told before it begins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest
from click.testing import CliRunner

from draftproof.conformance.cli import cli
from draftproof.conformance.requirements.sampled import SequentialTest
from draftproof.conformance.run.campaign import Campaign, UnknownCase
from draftproof.conformance.run.forecast import _halves, forecast
from draftproof.spec import validate


def campaign(*cases: str, lanes: tuple[str, ...] = ("exact", "sample")) -> Campaign:
    return Campaign("torch-token", mode="quick", seed=1, cases=cases, lanes=lanes)


def test_what_is_timed_as_a_whole_takes_as_long() -> None:
    found = forecast(campaign("generic.v2.*"), seconds=inf)
    assert found.timed == found.tasks > 1
    assert 0 < found.seconds <= found.spent


def test_a_task_is_timed_however_little_time_there_is() -> None:
    found = forecast(campaign("generic.*"), seconds=0)
    assert found.timed == 1
    assert found.seconds == pytest.approx(found.spent * found.tasks, rel=0.5)


def test_where_samples_decide_a_first_batch_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole test is longer by what its batches are more."""
    sizes: list[tuple[int, int]] = []

    def drawn(test: SequentialTest, *_: object) -> Iterator[None]:
        sizes.append((test.shares[0][0], sum(map(sum, test.shares))))
        yield None

    monkeypatch.setattr(SequentialTest, "draw", drawn)
    found = forecast(campaign("generic.v2.l1", lanes=("sample",)), seconds=inf)
    ((first, every),) = sizes
    assert every > 100 * first
    assert found.spent < found.seconds <= found.spent * every / first


def test_the_first_few_lie_far_from_each_other() -> None:
    assert [*_halves(range(7))] == [3, 1, 5, 0, 2, 4, 6]
    assert sorted(_halves(range(100))) == [*range(100)]
    assert [*_halves([])] == []


def test_a_case_that_is_not_there_is_named() -> None:
    with pytest.raises(UnknownCase, match=r"matches 'generic\.v1'\."):
        forecast(campaign("generic.v1"))


def told(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(cli, ["certify", *arguments, "--plan"])
    return ran.exit_code, ran.output


def test_the_command_tells_it_and_writes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "certificates"
    terms = ("--mode", "quick", "--case", "generic.v2.l1", "--output", str(place))
    code, text = told("torch-token", *terms)
    assert code == 0
    assert text.startswith("torch-token, mode quick: 1 task, about ")
    code, text = told("torch-token", *terms, "--json")
    document = json.loads(text)
    validate(document, "certify")
    assert (code, document["certificates"], document["forecasts"][0]["tasks"]) == (0, [], 1)
    assert not place.exists()


def test_lanes_that_are_blind_are_told(tmp_path: Path) -> None:
    file = tmp_path / "opaque.py"
    file.write_text(
        "import random\nfrom draftproof.conformance.museum.mutants.verifiers import Token\n"
        "class Opaque(Token):\n"
        "    def verify(self, request):\n"
        "        random.gauss()\n"
        "        return super().verify(request)\n"
    )
    code, text = told(f"{file}:Opaque", "--mode", "quick", "--case", "generic.v2.l1")
    assert code == 0
    assert "  the exact lane cannot see this adapter: " in text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--format", "junit"), "--plan cannot print junit; use --json"),
        (("--search", "5"), "--plan cannot be combined with --search"),
    ],
)
def test_what_a_plan_cannot_do_is_told(more: tuple[str, ...], message: str) -> None:
    code, text = told("torch-token", *more)
    assert code == 2
    assert message in text


def test_an_adapter_that_cannot_run_is_told(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("class Broken:\n    def __init__(self):\n        raise OSError('no disk')\n")
    code, text = told(f"{file}:Broken", "--json")
    document = json.loads(text[text.index("{") :])
    validate(document, "certify")
    assert (code, document["exit_code"]) == (3, 3)
    assert "no disk" in document["errors"][0]["message"]
