"""The Triton forms: they compile for GPUs, emit what the torch forms emit, and have their laws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy
import pytest
import torch
from benchmarks import compiled
from benchmarks.compiled import apart, read

from draftproof.adapters.fast import KERNELS, TEXTS, FastVerifier
from draftproof.adapters.fast.batch import Batch, Rows, uniforms
from draftproof.adapters.fast.inputs import from_request
from draftproof.conformance.cases import Case, cases
from draftproof.conformance.lanes.exchange import Asked, as_given, request
from draftproof.conformance.lanes.observe import PROBE, observe
from draftproof.conformance.lanes.probe import _launches
from draftproof.conformance.lanes.probe._interpreted import patched_once
from draftproof.conformance.lanes.sample import cells_of, verifying
from draftproof.conformance.protocol.adapter import DraftRequest, Request, declaration, program_of
from draftproof.conformance.requirements.finding import PASS, SKIPPED
from draftproof.conformance.requirements.laws import fits, judge
from draftproof.reference.drafting import draft_law

launch = pytest.importorskip("draftproof.adapters.fast.kernels.launch")


RATIOS = (("token", "_accept"), ("block", "_keep"))
"""The kernels that compare a coin with p / q."""


def quick_cases(name: str) -> list[Case]:
    declared = declaration(FastVerifier(name))
    return [case for case in cases("quick") if fits(case, declared)]


@pytest.mark.parametrize("half", [0, 1])
def test_every_kernel_compiles_for_gpus_that_are_not_there(half: int) -> None:
    names = [*KERNELS, "drafting"][half::2]
    places = "--at=sm_90:5000:bfloat16:logits", "--at=gfx942:5:float32:probabilities"
    found = apart(compiled.__file__, "--json", *places, *names)
    kernels = [(row["verifier"], read(row["kernel"])) for row in found]
    made = {(name, kernel.target) for name, kernel in kernels}
    assert made == {(name, target) for name in names for target in ("sm_90", "gfx942")}
    # A ratio is 1 where p = q: only a division that is rounded as IEEE 754 says promises that.
    ratios = [
        own for name, own in kernels if own.target == "sm_90" and (name, own.kernel) in RATIOS
    ]
    assert len(ratios) == len({"token", "block"} & {*names})
    assert all(kernel.correct_divisions > 0 for kernel in ratios)
    assert all(kernel.other_divisions == 0 for kernel in ratios if kernel.kernel == "_accept")


def batches(name: str) -> Iterator[Batch]:
    """Yield the drafts of all quick cases, 256 at most of each, those of one shape together."""
    verifier = FastVerifier(name)
    alike: dict[object, list[Asked]] = {}
    for instance in (case.instance for case in quick_cases(name)):
        shape = (instance.vocabulary, instance.length, instance.drafts, instance.branching)
        drafted = islice(draft_law(instance), 256)
        alike.setdefault(shape, []).extend((instance, drafts) for drafts in drafted)
    for rows in alike.values():
        yield from_request(request(rows, declaration(verifier)), most_drafts=verifier.max_drafts)


@pytest.mark.requirement("batch.backends")
@pytest.mark.parametrize("name", KERNELS)
def test_both_forms_emit_the_same_on_the_same_noise(name: str) -> None:
    rows = differing = 0
    for batch in batches(name):
        width = TEXTS[name].noise(batch.drafts, batch.length)
        generator = torch.Generator().manual_seed(rows)
        for _ in range(2):
            noise = uniforms(len(batch.lengths), width, generator, batch.tokens.device)
            one, other = (FastVerifier(name, form=form).of(batch, noise) for form in TWO_FORMS)
            is_same = (one.accepted_length == other.accepted_length) & (one.path == other.path)
            differing += int((~is_same | (one.next_token != other.next_token)).sum())
            rows += len(batch.lengths)
    # Noise decides otherwise where it falls between two roundings of a threshold, of which there
    # are some ten: with a probability of 1e-6 a row, so that two of a thousand rows are 1e-6, too.
    assert rows > 100
    assert differing <= 1


TWO_FORMS = ("torch", "triton")


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    ("rows", "vocabulary", "is_interpreted"), [(6, 9000, False), (8, 32_000, True)]
)
def test_rows_of_any_tiles_are_rows(
    name: str,
    rows: int,
    vocabulary: int,
    is_interpreted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the tiles of a GPU: one request to a program, and 4096 tokens: rows in several pieces.

    With those of an interpreted kernel: all requests, and 2**20 numbers, the most of a tensor.
    """
    monkeypatch.setattr(launch, "IS_INTERPRETED", is_interpreted)
    verifier = FastVerifier(name)
    generator = torch.Generator().manual_seed(1)
    q, p = torch.rand(2, vocabulary, generator=generator).mul(4).softmax(-1).unbind()
    drafts = min(2, verifier.max_drafts)
    asked = DraftRequest(
        lambda contexts: q.expand(len(contexts), -1), rows, drafts, 2, vocabulary, 1.0, 0, 1.0
    )
    drafted = verifier.draft(replace(asked, generator=generator))
    given = Request(
        drafted.draft_tokens, drafted.draft_probs, p.expand(rows, drafts, 3, vocabulary)
    )
    batch = from_request(given, most_drafts=drafts)
    for _ in range(2):
        noise = uniforms(rows, TEXTS[name].noise(drafts, 2), generator, q.device)
        one, other = (FastVerifier(name, form=form).of(batch, noise) for form in TWO_FORMS)
        # What falls between two roundings, of so many tokens, is some 1e-4 of the noise.
        assert torch.equal(one.accepted_length, other.accepted_length)
        assert torch.equal(one.next_token, other.next_token)


@pytest.mark.requirement(
    "law.lossless",
    "law.reference",
    "law.support",
    "law.prefix",
    "length.expected",
    "length.bounded",
    "length.optimal",
    "random.fresh",
)
@pytest.mark.parametrize("name", KERNELS)
def test_the_kernels_have_the_law_of_their_algorithm(name: str) -> None:
    """On one case, of several drafts if it takes them; the certificates tell of all."""
    _, two, *others = quick_cases(name)
    case = next((other for other in others if other.instance.drafts > 1), two)
    findings = judge(observe(program_of(FastVerifier(name, form="triton")), case, lane=PROBE))
    assert {finding.verdict for finding in findings} <= {PASS, SKIPPED}


# Where a kernel is interpreted, numpy tells of a row's 0/0.
@pytest.mark.requirement("batch.invariant")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", KERNELS)
def test_a_row_that_is_no_law_disturbs_no_other(name: str) -> None:
    """Rows of zeros beside it, of which nothing can be drawn, in a program for several requests."""
    width_of, generator = TEXTS[name].noise, torch.Generator().manual_seed(0)
    for given in islice(batches(name), 2):
        count = len(given.lengths)
        beside = replace(
            given,
            tokens=given.tokens.repeat(2, 1, 1),
            lengths=given.lengths.repeat(2),
            q=_beside_zeros(given.q),
            p=_beside_zeros(given.p),
        )
        for form in TWO_FORMS:
            verifier, width = FastVerifier(name, form=form), width_of(given.drafts, given.length)
            noise = uniforms(count, width, generator, given.tokens.device)
            alone = verifier.of(given, noise)
            both = verifier.of(beside, noise.repeat(2, 1))
            assert torch.equal(both.accepted_length[:count], alone.accepted_length)
            assert torch.equal(both.next_token[:count], alone.next_token)


@pytest.mark.parametrize("name", KERNELS)
def test_more_requests_than_a_server_has_are_verified(name: str) -> None:
    """The probe lane asks for a hundred thousand rows, which an interpreted program has at once.

    Triton has tensors of 2**20 numbers at most, so each must be cut into so many requests less.
    """
    program = program_of(FastVerifier(name, form="triton"))
    case = max(quick_cases(name), key=lambda each: each.instance.drafts * each.instance.length)
    cells = cells_of(as_given(case.instance, program.declared))
    with verifying(program, case.instance, cells, numpy.random.default_rng(0)) as verify:
        found, words = verify(33_000)
    assert words == ""
    assert found.max() < cells.size - 1


@pytest.mark.parametrize("name", KERNELS)
def test_launches_are_made_from_recordings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is of no kind: interpreting takes ten times as long, of a certificate hours."""
    if not launch.IS_INTERPRETED:
        pytest.skip("kernels are compiled here, not interpreted")
    kinds: list[object] = []
    given = _launches._given

    def noted(*launched: Any) -> Any:
        kinds.append(given(*launched))
        return kinds[-1]

    monkeypatch.setattr(_launches, "_given", noted)
    batch = next(batches(name))
    width, device = TEXTS[name].noise(batch.drafts, batch.length), batch.tokens.device
    noise = uniforms(len(batch.lengths), width, None, device)
    with patched_once():
        FastVerifier(name, form="triton").of(batch, noise)
    assert kinds
    assert None not in kinds


def _beside_zeros(rows: Rows) -> Rows:
    """Return the rows of a batch, and as many of zeros for the requests behind them."""
    more = rows.at + len(rows.values)
    values = torch.cat([rows.values, torch.zeros_like(rows.values)])
    return replace(rows, values=values, at=torch.cat([rows.at, more]))
