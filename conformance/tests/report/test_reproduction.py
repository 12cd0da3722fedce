from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance.report.reproduction import (
    BrokenCounterexample,
    NotReproducible,
    asked_rows,
    compared,
    script,
)

ADAPTERS = """
import torch
from types import SimpleNamespace


class Bonus:
    '''The bonus token is drawn from the draft.'''

    def coins(self, request, ratio):
        return torch.rand_like(ratio)

    def verify(self, request):
        path, q = request.draft_tokens[:, 0], request.draft_probs[:, 0]
        p = request.target_probs[:, 0]
        ratio = (p[:, :-1] / q).gather(-1, path[..., None])[..., 0]
        accepted = (self.coins(request, ratio) < ratio).long().cumprod(-1).sum(-1)
        rows = torch.cat([(p[:, :-1] - q).clamp(min=0), q[:, -1:]], 1)
        token = torch.multinomial(rows[torch.arange(len(path)), accepted].float(), 1)[:, 0]
        return SimpleNamespace(accepted_length=accepted, path=accepted * 0, next_token=token)


made = Bonus()


class Alone(Bonus):
    def verify(self, request):
        assert len(request.draft_tokens) == 1
        return super().verify(request)


class Noise(Alone):
    def coins(self, request, ratio):
        assert request.noise["coins"].shape == ratio.shape
        assert (request.noise["race"] > 0).all()
        return request.noise["coins"]


class Logits(Bonus):
    def verify(self, request):
        # A logarithm above -8, for probabilities above 1/2981, and its exponential are each off by
        # one ulp at most, which is twice the unit roundoff: exp(8 (1 + 2u)) (1 + 2u) is 18u off.
        roundings = {"rtol": 18 * 2.0**-24, "atol": 0}
        torch.testing.assert_close(request.target_logits.exp(), request.target_probs, **roundings)
        torch.testing.assert_close(request.draft_logits.exp(), request.draft_probs, **roundings)
        return super().verify(request)


class Half(Bonus):
    def verify(self, request):
        assert request.draft_probs.dtype == request.target_probs.dtype == torch.float16
        return super().verify(request)


class SharedCoin(Bonus):
    def coins(self, request, ratio):
        return torch.rand_like(ratio[:1]).expand_as(ratio)


class Crashes(Bonus):
    def coins(self, request, ratio):
        if torch.rand(()) < 0.5:
            raise IndexError("index 7 is out of bounds")
        return torch.rand_like(ratio)


class Outside(Bonus):
    def verify(self, request):
        result = super().verify(request)
        return SimpleNamespace(**{**vars(result), "next_token": result.next_token + 2})


class SecondPath:
    '''Accepts all of the second path, then token 0.'''

    def verify(self, request):
        first = torch.zeros(len(request.draft_tokens), dtype=torch.long)
        whole = first + request.draft_tokens.shape[2]
        return SimpleNamespace(accepted_length=whole, path=first + 1, next_token=first)


class Branches(SecondPath):
    def verify(self, request):
        assert request.branching == (2, 2)
        return super().verify(request)
"""

INSTANCE = {"vocabulary": 2, "length": 1, "target": ["0", "1"], "draft": ["1/2", "1/2"]}


def law(*entries: tuple[list[int], int, float]) -> list[dict[str, Any]]:
    return [
        {"path": 0, "accepted": accepted, "next": token, "probability": probability}
        for accepted, token, probability in entries
    ]


BONUS: dict[str, Any] = {
    "requirement": "law.lossless",
    "distance": 0.25,
    "instance": INSTANCE,
    "draft": [[1]],
    "observed": law(([1], 0, 0.5), ([1], 1, 0.5)),
    "expected": law(([1], 1, 1.0)),
    "words": [],
}


def found(name: str, counterexample: Any = BONUS, **adapter: Any) -> dict[str, Any]:
    """Return what a certificate holds of an adapter in ADAPTERS."""
    known = {
        "dtype": "float32",
        "device": "cpu",
        "batch": True,
        "logits": False,
        "trees": False,
        "noise": {},
    }
    place = {"place": f"./adapters.py:{name}"}
    return {"adapter": {**known, **place, **adapter}, "counterexample": counterexample}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "adapters.py").write_text(ADAPTERS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    Path("shown.py").write_text(text)
    runpy.run_path("shown.py", run_name="__main__")
    return capsys.readouterr().out.splitlines()


def frequencies(lines: list[str], said: str) -> dict[str, tuple[float, float]]:
    """Return the printed frequency and probability of every text."""
    read = {}
    for line in lines:
        seen, probability = line.split(f" {said} ")
        text, frequency = seen.rsplit(" ", 1)
        read[text] = float(frequency), float(probability)
    return read


def code(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_script_shows_the_fault_with_torch_alone(here: Path) -> None:
    text = script(found("Bonus"), "the bonus is wrong")
    (here / "shown.py").write_text(text)
    without = "import runpy, sys; sys.modules['draftproof'] = None; runpy.run_path('shown.py')"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", without], capture_output=True, text=True, cwd=here, timeout=300
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    seen = frequencies(ran.stdout.splitlines(), "should be")
    # 100,000 throws of a coin stray by 0.01 with probability below 2 exp(-20).
    assert seen["(1, 0)"] == pytest.approx((0.5, 0), abs=0.01)
    assert seen["(1, 1)"] == pytest.approx((0.5, 1), abs=0.01)


@pytest.mark.parametrize(
    ("name", "adapter"),
    [
        ("made", {}),
        ("Logits", {"logits": True}),
        ("Half", {"dtype": "float16"}),
        ("Alone", {"batch": False}),
        (
            "Noise",
            {"batch": False, "noise": {"coins": ["uniform", "L"], "race": ["exponential", 3, "V"]}},
        ),
    ],
)
def test_every_way_to_ask(
    name: str, adapter: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(found(name, **adapter), name)
    seen = frequencies(run(text, capsys), "should be")
    # 5,000 throws of a coin stray by 0.05 with probability below 2 exp(-25).
    assert seen["(1, 0)"] == pytest.approx((0.5, 0), abs=0.05)
    assert ("5_000" in text) == (not adapter.get("batch", True))
    assert len(code(text)) <= 36


def test_a_module_is_imported_by_its_name(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "mine_for_a_script").mkdir()
    (here / "mine_for_a_script" / "verifier.py").write_text(ADAPTERS)
    monkeypatch.syspath_prepend(here)
    text = script(found("Bonus", place="mine_for_a_script.verifier:Bonus"), "package")
    assert frequencies(run(text, capsys), "should be")["(1, 0)"][0] > 0.4
    assert len(code(text)) <= 36


def test_several_paths(capsys: pytest.CaptureFixture[str]) -> None:
    two = {
        "vocabulary": 2,
        "length": 2,
        "drafts": 2,
        "target": ["1/3", "2/3"],
        "draft": {"": ["2/3", "1/3"], "0": ["2/3", "1/3"], "1": ["1/7", "6/7"]},
    }
    paths = {
        **BONUS,
        "instance": two,
        "draft": [[0, 0], [1, 0]],
        "observed": [{"path": 1, "accepted": [1, 0], "next": 0, "probability": 1.0}],
        "expected": law(([], 1, 1.0)),
    }
    text = script(found("SecondPath", paths), "paths")
    q = "[[[2 / 3, 1 / 3]] * 2, [[2 / 3, 1 / 3], [1 / 7, 6 / 7]]]"
    assert f"draft_probs = [{q}]\ntarget_probs = [[[[1 / 3, 2 / 3]] * 3] * 2]\n" in text
    assert run(text, capsys) == ["(1, 0, 0) 1.0 should be 0", "(1,) 0.0 should be 1"]
    assert len(code(text)) <= 36


TREE: dict[str, Any] = {
    **BONUS,
    "instance": {
        "vocabulary": 2,
        "length": 2,
        "scheme": "tree",
        "branching": [2, 2],
        "target": ["1/2", "1/2"],
        "draft": ["1/2", "1/2"],
    },
    "draft": [[0, 0], [0, 1], [1, 0], [1, 0]],
    "observed": [{"path": 1, "accepted": [0, 1], "next": 0, "probability": 1.0}],
    "expected": law(([], 1, 1.0)),
}


def test_a_tree_is_told_to_who_takes_trees(capsys: pytest.CaptureFixture[str]) -> None:
    text = script(found("Branches", TREE, trees=True), "a tree")
    assert "        branching=(2, 2),\n" in text
    assert run(text, capsys) == ["(0, 1, 0) 1.0 should be 0", "(1,) 0.0 should be 1"]
    assert len(code(text)) <= 36
    assert "branching=None,\n" in script(found("Branches", trees=True), "no tree")
    assert "branching" not in script(found("SecondPath", TREE), "no trees")


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        (
            [[0, 0], [1, 0], [0, 1], [1, 0]],
            "with [2, 2] tokens after contexts of each depth cannot",
        ),
        ([[0, 0], [0, 1], [1, 0]], "the instance has 4 drafts, got 3 paths"),
    ],
)
def test_paths_that_are_no_tree_break_a_counterexample(draft: Any, message: str) -> None:
    with pytest.raises(BrokenCounterexample, match=re.escape(message)):
        asked_rows({**TREE, "draft": draft})


def test_rows_of_different_trees_have_no_script() -> None:
    tree = {"instance": TREE["instance"], "draft": TREE["draft"]}
    flat = {**tree, "instance": {**tree["instance"], "scheme": "iid", "drafts": 4}}
    del flat["instance"]["branching"]
    pair = {"rows": [tree, flat], "observed": [], "expected": None}
    with pytest.raises(NotReproducible, match="or in trees"):
        script(found("Branches", {**pair, "observed": None}, trees=True), "trees")


def test_a_batch_is_asked_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    even = {"vocabulary": 2, "length": 1, "target": ["1/2", "1/2"], "draft": ["1", "0"]}
    row = {"instance": even, "draft": [[0]]}
    outcomes = {"kept": {"path": 0, "accepted": [0], "next": 0}}
    outcomes["lost"] = {"path": 0, "accepted": [], "next": 1}

    def joint(*entries: tuple[str, str, float]) -> list[dict[str, Any]]:
        return [
            {"rows": [outcomes[one], outcomes[other]], "probability": probability}
            for one, other, probability in entries
        ]

    pair = {
        "requirement": "batch.invariant",
        "distance": 0.5,
        "rows": [row, row],
        "observed": joint(("kept", "kept", 0.5), ("lost", "lost", 0.5)),
        "expected": joint(*((a, b, 0.25) for a in outcomes for b in outcomes)),
        "words": [],
    }
    text = script(found("SharedCoin", pair), "batch")
    seen = frequencies(run(text, capsys), "should be")
    assert seen["((0, 0), (1,))"] == (0, 0.25)
    # 5,000 throws of a coin stray by 0.05 with probability below 2 exp(-25).
    assert seen["((0, 0), (0, 0))"] == pytest.approx((0.5, 0.25), abs=0.05)
    assert len(code(text)) <= 36


def test_an_exception_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    raises = {
        **BONUS,
        "requirement": "law.prefix",
        "observed": [
            {"failure": "raised IndexError: index 7 is out of bounds", "probability": 0.5},
            *law(([1], 1, 0.5)),
        ],
    }
    text = script(found("Crashes", raises), "crash")
    assert "runs = 40\ndraft_tokens = [[[1]]]\n" in text
    # It stays away in 40 runs with probability 2**-40.
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        run(text, capsys)
    assert "no error raised" in run(script(found("Bonus", raises), "right"), capsys)[0]
    assert len(code(text)) <= 36


def test_what_is_out_of_range_is_shown_as_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    outside = {
        **BONUS,
        "observed": [{"failure": "returned next token 2, not in 0..1", "probability": 1.0}],
    }
    text = script(found("Outside", outside), "outside")
    lines = run(text, capsys)
    assert lines[0].startswith("path, accepted length, next token: (0.0, 1.0, 2.0) 0.")
    assert len(code(text)) <= 36


def test_without_an_expected_law_the_observed_one_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = script(found("Bonus", {**BONUS, "expected": None}), "unknown algorithm")
    seen = frequencies(run(text, capsys), "exactly")
    assert seen["(1, 0)"] == pytest.approx((0.5, 0.5), abs=0.01)


LONG = {
    **BONUS,
    "instance": {"vocabulary": 40, "length": 1, "target": ["1/40"] * 40, "draft": ["1/40"] * 40},
}


@pytest.mark.skipif(find_spec("ruff") is None, reason="ruff is not installed")
@pytest.mark.parametrize(
    "given",
    [
        found("Bonus"),
        found("Alone", batch=False),
        found("Noise", noise={"coins": ["uniform", "L"]}, logits=True, device="cuda"),
        found("Bonus", LONG),
        found("Bonus", place="package.module:Bonus"),
    ],
)
def test_it_is_clean(given: dict[str, Any]) -> None:
    rules = ["--isolated", "--line-length=100", "--select=E,F,I,UP,W,RUF"]
    ran = subprocess.run(
        [sys.executable, "-m", "ruff", "check", *rules, "-"],
        input=script(given, "a title"),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout


def test_what_is_most_wrong_comes_first() -> None:
    assert compared(BONUS) == [((1, 0), 0.5, 0), ((1, 1), 0.5, 1.0)]
    assert compared({**BONUS, "expected": None})[0][2] == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (found("Bonus", None), "the certificate has no counterexample"),
        (
            found(
                "Bonus",
                {
                    **BONUS,
                    "rows": [
                        {"instance": INSTANCE, "draft": [[1]]},
                        {"instance": {**INSTANCE, "length": 2}, "draft": [[1, 1]]},
                    ],
                },
            ),
            "the rows of its batch differ in their number of drafted tokens or paths",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(NotReproducible, match=message):
        script(given, "a title")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draft": [[1, 1]]}, r"path \(1, 1\) must have 1 tokens, has 2"),
        ({"draft": [[2]]}, "token 2 of context '2' in the draft is not in 0..1"),
        ({"draft": [[1], [1]]}, "the instance has 1 drafts, got 2 paths"),
        ({"instance": {**INSTANCE, "draft": ["1", "0"]}}, r"path \(1,\) has probability 0"),
        ({"instance": {**INSTANCE, "target": ["1/2", "1/3"]}}, "it sums to 5/6"),
        ({"observed": law(([1], 1, 0.9))}, "the observed law of its counterexample sums to 0.9"),
        ({"expected": law(([1], 1, 0.8))}, "the expected law of its counterexample sums to 0.8"),
    ],
)
def test_a_counterexample_that_contradicts_itself_is_refused(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(BrokenCounterexample, match=message):
        asked_rows({**BONUS, **change})


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "\0"])
def test_a_title_runs_no_code(end: str) -> None:
    title = f"mine{end}open('hacked', 'w').close()"
    tree = ast.parse(script(found("Bonus"), title))
    assert "hacked" not in ast.unparse(tree)


@pytest.mark.parametrize(
    "odd",
    [
        "\nopen('hacked', 'w').close()\n",
        '"); open("hacked", "w").close() #',
        "'] + [open('hacked', 'w').close()]",
        "\\",
        "\u202e",
        "\ud800",
    ],
)
@pytest.mark.parametrize("where", ["{}", "./{}.py:Mine", "./adapters.py:{}", "{}:Mine"])
def test_no_string_of_a_certificate_becomes_code(odd: str, where: str) -> None:
    failing = [
        {"failure": f"raised {odd}", "path": 0, "probability": 0.5},
        {"failure": odd, "probability": 0.5},
    ]
    for observed in (BONUS["observed"], failing, failing[::-1]):
        shown = {**BONUS, "observed": observed, "expected": None}
        place, noise = where.format(odd), {odd: ["uniform", "L"]}
        for batch in (True, False):
            text = script(found("Bonus", shown, place=place, noise=noise, batch=batch), odd)
            called = {
                each.func.id
                for each in ast.walk(ast.parse(text))
                if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
            }
            assert "open" not in called


@pytest.mark.parametrize("form", [["uniform", "L).x; open('hacked', 'w')#"], ["x", "L"], ["x()#"]])
def test_a_noise_that_is_none_is_refused(form: list[str]) -> None:
    with pytest.raises(BrokenCounterexample, match="noise is uniform, exponential, then sides K"):
        script(found("Bonus", noise={"coins": form}), "a title")
