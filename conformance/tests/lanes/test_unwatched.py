"""The lanes that compute laws test themselves: against real runs, over a whole campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

from draftproof.adapters.fast import FastVerifier
from draftproof.conformance.cases import cases
from draftproof.conformance.evidence.certificate import statement
from draftproof.conformance.evidence.decision import report
from draftproof.conformance.evidence.records import Evidence, Record, read_unfinished, written
from draftproof.conformance.lanes import unwatched
from draftproof.conformance.lanes.exact import exact_law, hold_exact
from draftproof.conformance.lanes.exact._noise import Uniform
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.lanes.probe import _launches, hold_probed
from draftproof.conformance.lanes.statistics import Budget
from draftproof.conformance.protocol.adapter import FailsEverywhere, program_of
from draftproof.conformance.requirements.finding import FAIL, INCONCLUSIVE, PASS
from draftproof.conformance.run.campaign import Campaign, run
from draftproof.conformance.run.rerun import recounted, repeat
from draftproof.reference.law import Law
from draftproof.reference.rational import ONE, ZERO, rational

SOURCE = '''
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode as watching

from draftproof.conformance.protocol.adapter import Result

_kept = type  # before a lane has anything to say


def _seen(number):
    return _kept(number) is float


class Token:
    name, version, algorithm = "by-item", "1", "token"
    at_once = 256

    def factor(self, coin, row):
        return 1.0

    def verify(self, request):
        tokens = request.draft_tokens[:, 0].tolist()
        q, p = request.draft_probs[:, 0].double(), request.target_probs[:, 0].double()
        coins = torch.rand(len(tokens), len(tokens[0]), generator=request.generator)
        lengths, emitted = [], []
        for row, path in enumerate(tokens):
            kept = 0
            for i, token in enumerate(path):
                coin = coins[row, i].item()
                ratio = float(p[row, i, token] / q[row, i, token])
                if not coin < ratio * self.factor(coin, row):
                    break
                kept += 1
            owed = p[row, kept].clone()
            if kept < len(path):
                owed = (owed - q[row, kept]).clamp(min=0)
            lengths.append(kept)
            # Of what owes nothing p is drawn from: its draft should not have come there.
            whole = owed if float(owed.sum()) > 0 else p[row, kept]
            emitted.append(torch.multinomial(whole, 1, generator=request.generator)[0])
        return Result(torch.tensor(lengths), torch.zeros(len(tokens)).long(), torch.stack(emitted))


class WrongOutside(Token):
    def factor(self, coin, row):
        return 9.0 if _seen(coin) else 1.0


class WrongInside(Token):
    def factor(self, coin, row):
        return 1.0 if _seen(coin) else 9.0


class WrongUnwatched(Token):
    """Right while it is watched; otherwise it emits what was drafted, and accepts nothing."""

    def verify(self, request):
        right = super().verify(request)
        if watching() is not None:
            return right
        return Result(0 * right.path, right.path, request.draft_tokens[:, 0, 0])


class WrongAlone(WrongUnwatched):
    """Right while it is watched, and in a batch."""

    def verify(self, request):
        if len(request.draft_tokens) > 1:
            return Token.verify(self, request)
        return super().verify(request)


class FailsAlone(Token):
    """Right while it is watched, and in a batch."""

    def verify(self, request):
        if len(request.draft_tokens) == 1 and watching() is None:
            raise RuntimeError("one row")
        return super().verify(request)


class WrongBehind(Token):
    """Right in the first row of a batch."""

    def factor(self, coin, row):
        return 9.0 if row else 1.0
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("adapters") / "by_item.py"
    file.write_text(SOURCE)
    return file


def left(place: Path, name: str, **terms: Any) -> list[Record]:
    """Return what a campaign on some quick cases leaves behind."""
    given = {"cases": ("generic.v2.l1",), "only": ("law.lossless",), **terms}
    records: list[Record] = []
    run(Campaign(f"{place}:{name}", mode="quick", seed=3, **given), keep=records.append)
    return records


def evidence(records: list[Record], folder: Path) -> Evidence:
    """Return the records as they are read from a file."""
    with written(folder / "kept.jsonl") as sink:
        for record in records:
            sink.keep(record)
    return read_unfinished(folder / "kept.jsonl")


def seen(records: list[Record]) -> list[dict[str, Any]]:
    """Return what real runs were counted."""
    return [record["unwatched"] for record in records if "unwatched" in record]


def decided(records: list[Record]) -> tuple[str, set[str | None]]:
    """Return the verdict on losslessness, and the lanes that decided it."""
    (lossless,) = report(records).decisions
    return lossless.verdict, {finding.lane for finding in lossless.findings}


@pytest.mark.requirement("law.lossless")
def test_a_right_verifier_is_decided_by_the_exact_lane(place: Path) -> None:
    records = left(place, "Token")
    assert decided(records) == (PASS, {"exact"})
    (counts,) = seen(records)
    assert counts["lane"] == "exact"
    assert sum(counts["rows"]) == 768
    assert sum(counts["alone"]) == 8 * 5  # it takes its coins out of torch
    for kind in ("alone", "rows"):
        assert unwatched.evidence([counts[kind]]) < Budget(1e-9).threshold


@pytest.mark.requirement("law.lossless")
@pytest.mark.parametrize("name", ["WrongAlone", "WrongUnwatched"])
def test_where_real_runs_disagree_with_every_law_samples_decide(
    place: Path, tmp_path: Path, name: str
) -> None:
    """A program that is right while it is watched, by whatever lane; with one row, or with any."""
    # Of one case too few rows are run alone.
    records = left(place, name, cases=("generic.v2.*",))
    # They are drawn one row a call, where such calls were in doubt; so few leave it open.
    assert decided(records) == (INCONCLUSIVE, {"sample"})
    blind = [record for record in records if record["record"] == "blind"]
    assert [each["lane"] for each in blind] == ["exact", "probe"]
    found = evidence(records, tmp_path)
    assert found.is_finished
    said = statement(records, evidence="x.jsonl", digest="0" * 64)["predicate"]["draftproof"]
    assert said["blind"] == {each["lane"]: each["reason"] for each in blind}
    assert recounted(found) == 2
    again = repeat(found)
    assert (again.different, again.near) == ((), 0)


def test_what_fails_in_every_call_of_one_row_is_not_judged(place: Path) -> None:
    with pytest.raises(FailsEverywhere, match=r"it fails on every case: .*: one row"):
        left(place, "FailsAlone", cases=("generic.v2.*",), only=("law.prefix",))


@pytest.mark.requirement("law.lossless")
@pytest.mark.parametrize(("name", "verdict"), [("WrongOutside", FAIL), ("WrongInside", PASS)])
def test_where_real_runs_disagree_the_next_lane_decides(
    place: Path, tmp_path: Path, name: str, verdict: str
) -> None:
    """A program that takes another branch under the lane than outside of it."""
    records = left(place, name)
    assert decided(records) == (verdict, {"probe"})
    (blind,) = (record for record in records if record["record"] == "blind")
    assert blind["lane"] == "exact"
    assert "its laws are not those of" in blind["reason"]
    found = evidence(records, tmp_path)
    assert found.is_finished
    said = statement(records, evidence="x.jsonl", digest="0" * 64)["predicate"]["draftproof"]
    assert said["blind"] == {"exact": blind["reason"]}
    assert recounted(found) == 0
    again = repeat(found)
    assert (again.different, again.near) == ((), 0)


def test_a_killed_run_goes_on_behind_the_blindness(place: Path, tmp_path: Path) -> None:
    whole = left(place, "WrongUnwatched")
    places = [i for i, record in enumerate(whole) if record["record"] == "blind"]
    assert len(places) == 2
    campaign = Campaign(
        f"{place}:WrongUnwatched",
        mode="quick",
        seed=3,
        cases=("generic.v2.l1",),
        only=("law.lossless",),
        created=whole[0]["created"],
    )
    for known in [at + behind for at in places for behind in (0, 1)]:
        records = whole[:known]
        run(campaign, keep=records.append, known=evidence(whole[:known], tmp_path))
        assert records == whole, known


@pytest.mark.requirement("batch.invariant")
def test_a_fault_of_batches_does_not_blind_the_lane(place: Path) -> None:
    """Rows of one call are asked first, and disagree; single runs decide."""
    records = left(place, "WrongBehind")
    assert unwatched.evidence([each["rows"] for each in seen(records)]) > Budget(1e-9).threshold
    assert decided(records) == (PASS, {"exact"})
    assert [record for record in records if record["record"] == "blind"] == []


def test_an_interception_that_is_off_by_little_is_seen_over_a_campaign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of all comparisons, as another torch might do it: by a tenth of their threshold."""
    right = Uniform.below

    def below(self: Uniform, edge: Any, chance: Any) -> bool:
        inside = 0 < edge < 1
        return right(self, edge * rational("9/10") if inside else edge, chance)

    verifier = FastVerifier("token")
    asked = [case for case in cases("quick") if case.id in ("zeros.both", "equal", "equal.first")]

    def found() -> float:
        counts = []
        for case in asked:
            with unwatched.holding(3) as held:
                observe(program_of(verifier), case)
            counts.append(held.rows.tolist())
        return unwatched.evidence(counts)

    assert found() < 5
    monkeypatch.setattr(Uniform, "below", below)
    assert found() > Budget(1e-12).threshold


# --- one law -----------------------------------------------------------------------------------


def held(
    weights: list[str], drawn: Callable[[int], Iterable[int]], *, seed: int = 0
) -> numpy.ndarray[Any, Any]:
    """Return the counts of a law of so many outcomes, held against others that are `drawn`."""
    table = torch.tensor([float(rational(weight)) for weight in weights])

    def program() -> torch.Tensor:
        return torch.multinomial(table, 1)[0]

    law = exact_law(program)
    with unwatched.holding(seed) as found:
        hold_exact(law, program, many=lambda n: Counter(drawn(n)), at_once=512)
    return found.rows


def test_places_of_a_right_law_are_uniform() -> None:
    rng = numpy.random.default_rng(1)
    weights = [1 / 8, 5 / 8, 1 / 4]
    each = [
        held(["1/8", "5/8", "1/4"], lambda n: rng.choice(3, n, p=weights).tolist(), seed=seed)
        for seed in range(100)
    ]
    counts = numpy.sum(each, axis=0)
    assert counts[-1] == 0
    shares = counts[:-1] / counts.sum()
    # A right share is off by six deviations with a probability of 2e-9.
    assert abs(shares - 1 / 16).max() < 6 * (1 / 16 / counts.sum()) ** 0.5
    assert unwatched.evidence([counts.tolist()]) < 0


def test_what_a_law_excludes_is_counted_apart() -> None:
    counts = held(["1/2", "1/2"], lambda n: [0, 1, 7, 0] * (n // 4))
    assert counts[-1] == counts.sum() // 4
    assert unwatched.evidence([counts.tolist()] * 2) > Budget(1e-9).threshold


def test_a_bias_of_many_laws_is_seen_together() -> None:
    """One of 4 % in each of sixty laws, of 512 runs each, which no law shows by itself."""
    rng = numpy.random.default_rng(2)
    found = [
        held(["1/2", "1/2"], lambda n: (rng.random(n) > 0.54).tolist(), seed=seed).tolist()
        for seed in range(60)
    ]
    assert max(unwatched.evidence([each]) for each in found) < 10
    assert unwatched.evidence(found) > Budget(1e-9).threshold


def test_floats_are_not_compared() -> None:
    """They may be rounded differently in a real run; what stands beside them is compared."""

    def other(count: int) -> dict[Any, int]:
        return {(0.1000001, i % 2 == 0): count // 2 for i in range(2)}

    def program() -> Any:
        return 0.1, torch.rand(()) < 0.5

    law = exact_law(program)
    with unwatched.holding(0) as found:
        hold_exact(law, program, many=other, at_once=64)
    assert (found.rows + found.alone)[-1] == 0
    assert found.rows.sum() > 0
    assert found.alone.sum() > 0


@pytest.mark.parametrize("kind", [int, float])
def test_a_token_is_one_as_a_float_too(kind: Callable[[int], Any]) -> None:
    """Behind floats a verifier would hide from real runs whatever it does in them."""
    law = exact_law(lambda: kind(int(torch.rand(()) < 0.5)))
    with unwatched.holding(0) as found:
        hold_exact(law, lambda: kind(0), many=lambda count: {kind(0): count}, at_once=64)
    assert unwatched.off_by(found.rows.tolist()) > 0.4
    assert unwatched.off_by(found.alone.tolist()) > 0.4


def test_nothing_is_run_again_where_nothing_is_held() -> None:
    calls = 0

    def program() -> bool:
        nonlocal calls
        calls += 1
        return bool(torch.rand(()) < 0.5)

    exact_law(program)
    assert calls == 4  # two runs, and each again to see whether it repeats itself
    with unwatched.holding(0):
        exact_law(program, is_held=False)
    assert calls == 8
    with unwatched.holding(0):
        exact_law(program)
    assert calls == 14


def test_some_real_runs_of_what_was_probed_make_no_launch_from_a_recording() -> None:
    interpreted = []

    def verify(laws: Sequence[int]) -> list[int]:
        interpreted.append(bool(_launches._INTERPRETING))
        return list(laws)

    with unwatched.holding(0):
        hold_probed([Law({0: ONE}), Law({1: ONE})], verify, slacks=[ZERO] * 2, batched=True)
    # The rows of both, the two calls of the first, and those of the second.
    assert interpreted == [False, True, *[False] * 3]


def test_laws_of_many_drafts_share_the_real_runs_of_a_few() -> None:
    calls = []

    def verify(laws: Sequence[int]) -> list[int]:
        calls.append(len(laws))
        return list(laws)

    with unwatched.holding(0) as found:
        laws = [Law({i: ONE}) for i in range(1600)]
        hold_probed(laws, verify, slacks=[ZERO] * 1600, batched=True)
    # Two calls of each of 16 laws, in the mean; the standard deviation is below 6.
    assert 8 < found.alone.sum() < 56
    assert found.rows.sum() == sum(rows for rows in calls if rows > 1) == 1600 * 2


def test_laws_of_many_outcomes_have_no_more_real_runs_than_one_of_some() -> None:
    def bits() -> Tensor:
        return torch.rand(9) < 0.5

    law = exact_law(bits)
    with unwatched.holding(0) as found:
        hold_exact(law, bits, many=lambda rows: {(0,) * 9: rows}, at_once=64)
    assert (found.alone.sum(), found.rows.sum()) == (64, 1024)


def test_laws_of_numbers_that_were_taken_out_of_torch_have_more_real_runs() -> None:
    def kept() -> bool:
        return bool(torch.rand(()) < 0.5)

    def taken() -> bool:
        return torch.rand(()).item() < 0.5

    runs = []
    for program in (kept, taken):
        law = exact_law(program)
        with unwatched.holding(0) as found:
            hold_exact(law, program)
        runs.append((law.has_scalars, int(found.alone.sum())))
    assert runs == [(False, 2), (True, 16)]
