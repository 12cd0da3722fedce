"""Tensors that lie in memory as engines have them: the same numbers emit the same, to the bit.

Rows are slices of padded ones, every other row, transposed, expanded; lengths, tokens and states
are strided, too. Nothing is copied that an engine would miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.adapters.fast import FORMS, KERNELS, TEXTS
from draftproof.adapters.fast.engine import Verified, verify
from draftproof.adapters.fast.inputs import EngineBatch, InvalidRequest, from_flat, indexed, lying

interpreter = pytest.importorskip("triton.runtime.interpreter")

LENGTHS = (3, 0, 1, 2, 3, 3, 2, 3)
V = 7
NOISE = 9.0
"""Logit between rows, which would win."""


def sliced(rows: Tensor) -> Tensor:
    """Return rows [n, K, V] of logits that are padded to a larger vocabulary."""
    room = torch.full((*rows.shape[:2], V + 3), NOISE, dtype=rows.dtype)
    room[..., :V] = rows
    return room[..., :V]


def padded(rows: Tensor) -> Tensor:
    """Return rows that begin inside of a larger block, on every side."""
    count, drafts, _ = rows.shape
    room = torch.full((count + 3, drafts + 2, V + 5), NOISE, dtype=rows.dtype)
    inside = room[2 : count + 2, 1 : drafts + 1, 4 : V + 4]
    return inside.copy_(rows)


def every_other(rows: Tensor) -> Tensor:
    """Return rows of which every other one, and every other token, is somebody else's."""
    count, drafts, _ = rows.shape
    room = torch.full((2 * count, drafts, 2 * V), NOISE, dtype=rows.dtype)
    return room[::2, :, ::2].copy_(rows)


def transposed(rows: Tensor) -> Tensor:
    """Return rows whose tokens lie further apart than the rows do."""
    return rows.permute(2, 1, 0).contiguous().permute(2, 1, 0)


def by_draft(rows: Tensor) -> Tensor:
    """Return rows that lie draft by draft."""
    return rows.transpose(0, 1).contiguous().transpose(0, 1)


def of_one_draft(rows: Tensor) -> Tensor:
    """Return rows that are one in memory for all drafts of a position: the first draft's."""
    return rows[:, :1].contiguous().expand_as(rows)


def of_one_position(rows: Tensor) -> Tensor:
    """Return rows that are one in memory for all positions: the first one's."""
    return rows[:1].contiguous().expand_as(rows)


def contiguous(rows: Tensor) -> Tensor:
    """Return the rows one behind the other."""
    return rows.contiguous()


def first_of_drafts(rows: Tensor) -> Tensor:
    """Return the numbers of `of_one_draft`, one behind the other."""
    return of_one_draft(rows).contiguous()


def first_of_all(rows: Tensor) -> Tensor:
    """Return the numbers of `of_one_position`, one behind the other."""
    return of_one_position(rows).contiguous()


LAYOUTS: tuple[Callable[[Tensor], Tensor], ...] = (
    sliced,
    padded,
    every_other,
    transposed,
    by_draft,
    of_one_draft,
    of_one_position,
)


def logits(drafts: int) -> tuple[Tensor, Tensor]:
    """Return logits of target and draft, [n + B, K, V] and [n, K, V]."""
    generator = torch.Generator().manual_seed(drafts)
    count = sum(LENGTHS)
    p, q = (
        torch.randn(rows, drafts, V, generator=generator) * 2
        for rows in (count + len(LENGTHS), count)
    )
    return p, q


def drafted(name: str, drafts: int) -> Tensor:
    """Return tokens [n, K]; no scheme that forbids it has one twice after a context."""
    generator = torch.Generator().manual_seed(9)
    if TEXTS[name].scheme == "iid":
        return torch.randint(V, (sum(LENGTHS), drafts), generator=generator)
    return torch.rand(sum(LENGTHS), V, generator=generator).argsort(-1)[:, :drafts]


def called(name: str, drafts: int, form: str, **rows: Any) -> Verified:
    count = len(LENGTHS)
    heated: dict[str, Any] = (
        {"temperature": torch.linspace(0, 2, count)} if "target_logits" in rows else {}
    )
    return verify(
        name,
        draft_token_ids=drafted(name, drafts),
        cu_num_draft_tokens=torch.tensor(LENGTHS).cumsum(0),
        max_spec_len=3,
        generators=torch.Generator().manual_seed(1),
        form=form,
        **heated,
        **rows,
    )


def differing(one: Verified, other: Verified) -> int:
    """Return how many requests are answered otherwise."""
    is_other = (one.token_ids != other.token_ids).any(1) | (one.path != other.path)
    return int(is_other.sum())


def widths(name: str) -> list[int]:
    text = TEXTS[name]
    return sorted({1, min(3, text.most_drafts, text.widest)})


ASKED = [pytest.param(name, k, id=f"{name}-k{k}") for name in TEXTS for k in widths(name)]

IN_FORMS = [
    pytest.param(name, k, form, id=f"{name}-k{k}-{form}")
    for name, text in TEXTS.items()
    for k in widths(name)
    for form in text.forms
]


# Target and draft lie differently; those in one row have the same numbers.
TOGETHER = (
    ((contiguous, contiguous), (sliced, padded), (every_other, transposed), (by_draft, sliced)),
    ((first_of_drafts, first_of_all), (of_one_draft, of_one_position)),
)


@pytest.mark.requirement("batch.backends")
@pytest.mark.parametrize(("name", "drafts"), ASKED)
def test_rows_of_any_strides_emit_the_same(name: str, drafts: int) -> None:
    """In both forms: what the torch form emits where all lies one behind the other."""
    p, q = logits(drafts)
    for layouts in TOGETHER:
        wanted, *others = (
            called(name, drafts, form, target_logits=of_p(p), draft_logits=of_q(q))
            for of_p, of_q in layouts
            for form in TEXTS[name].forms
        )
        # A threshold that the forms round differently is met by noise with a probability of 1e-6.
        assert [differing(other, wanted) for other in others] == [0] * len(others)
    wanted, *others = (
        called(
            name, drafts, form, target_probs=of_p(p.softmax(-1)), draft_probs=of_q(q.softmax(-1))
        )
        for of_p, of_q in ((contiguous, contiguous), (transposed, sliced))
        for form in TEXTS[name].forms
    )
    assert [differing(other, wanted) for other in others] == [0] * len(others)


MIXED = (
    (torch.float32, torch.float64),
    (torch.float64, torch.float32),
    (torch.float16, torch.float64),
    (torch.bfloat16, torch.float16),
)
"""The dtypes of target and draft."""


@pytest.mark.requirement("batch.backends")
@pytest.mark.parametrize(("name", "drafts"), ASKED)
def test_rows_of_two_dtypes_emit_the_same(name: str, drafts: int) -> None:
    """In both forms: what the torch form emits where all are float64."""
    for of_p, of_q in MIXED:
        p, q = (rows.to(dtype) for rows, dtype in zip(logits(drafts), (of_p, of_q), strict=True))
        wanted = called(name, drafts, "torch", target_logits=p.double(), draft_logits=q.double())
        others = [
            called(name, drafts, form, target_logits=p, draft_logits=q)
            for form in TEXTS[name].forms
        ]
        # Float32 thresholds are met by noise with a probability of 1e-6.
        assert [differing(other, wanted) for other in others] == [0] * len(others)


@pytest.mark.parametrize(("name", "drafts", "form"), IN_FORMS)
def test_all_else_may_be_strided_too(name: str, drafts: int, form: str) -> None:
    """Tokens, ends, parameters and a state, each every other number of a larger tensor."""

    def apart(each: Tensor) -> Tensor:
        room = each.new_full([2 * size for size in each.shape], 3)
        return room[tuple(slice(None, None, 2) for _ in each.shape)].copy_(each)

    p, q = logits(drafts)
    asked: dict[str, Any] = {
        "draft_token_ids": drafted(name, drafts),
        "cu_num_draft_tokens": torch.tensor(LENGTHS).cumsum(0),
        "temperature": torch.linspace(0.5, 2, len(LENGTHS)),
        "top_k": torch.arange(len(LENGTHS)),
    }
    call = partial(verify, name, max_spec_len=3, form=form, target_logits=p, draft_logits=q)
    first = call(generators=torch.Generator().manual_seed(1), **asked)
    again = dict(first.state) if first.state is not None else None

    def laid(lay: Callable[[Tensor], Tensor]) -> Verified:
        state = None if again is None else {key: lay(each) for key, each in again.items()}
        own: dict[str, Any] = {key: lay(each) for key, each in asked.items()}
        return call(generators=torch.Generator().manual_seed(2), state=state, **own)

    wanted, own = laid(contiguous), laid(apart)
    assert differing(own, wanted) == 0


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the tensors that kernels are given although they do not lie densely; not the rows."""
    found: list[str] = []
    run = interpreter.InterpretedFunction.run

    def watched(kernel: Any, *args: Any, **options: Any) -> Any:
        named = zip(kernel.arg_names, args, strict=False)
        found.extend(f"{kernel.__name__}: {name}" for name, each in named if _is_apart(name, each))
        return run(kernel, *args, **options)

    monkeypatch.setattr(interpreter.InterpretedFunction, "run", watched)
    return found


def _is_apart(name: str, given: Any) -> bool:
    # The strides of rows, of tokens and of ends stand beside them.
    if name in ("p", "q"):
        given = given._replace(entry=None)
    if name == "drafts":
        given = given._replace(tokens=None, ends=None)
    return any(not each.is_contiguous() for each in _tensors(given))


def _tensors(given: Any) -> Iterator[Tensor]:
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, tuple):
        for each in given:
            yield from _tensors(each)


@pytest.mark.parametrize(("name", "drafts"), [each for each in ASKED if each.values[0] in KERNELS])
def test_kernels_are_given_what_lies_densely(name: str, drafts: int, launched: list[str]) -> None:
    """But for rows: no kernel knows another tensor's strides."""
    p, q = map(padded, logits(drafts))
    first = called(name, drafts, "triton", target_logits=p, draft_logits=q)
    if first.state is not None:
        state = {key: each.flip(0).flip(0)[:, ::1] for key, each in first.state.items()}
        verify(
            name,
            draft_token_ids=drafted(name, drafts),
            cu_num_draft_tokens=torch.tensor(LENGTHS).cumsum(0),
            max_spec_len=3,
            target_logits=p,
            draft_logits=q,
            state={key: by_column(each) for key, each in state.items()},
            form="triton",
        )
    assert launched == []


def by_column(each: Tensor) -> Tensor:
    """Return the tensor with its first dimension next to each other in memory."""
    return each.movedim(0, -1).contiguous().movedim(-1, 0)


def test_the_watch_over_kernels_sees_what_is_strided(launched: list[str]) -> None:
    from draftproof.adapters.fast.kernels.block import block

    rows = lying(torch.full((3, 1, 4), 0.25))
    noise = torch.zeros(3, 2, dtype=torch.float64).T
    block(EngineBatch(torch.zeros(1, 1).long(), torch.tensor([0, 1]), rows, None, 2, noise))
    assert launched == ["_decide: noise", "_finish: noise"]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
@pytest.mark.parametrize("drafts", [1, 3])
def test_rows_are_not_copied(layout: Callable[[Tensor], Tensor], drafts: int) -> None:
    p, q = map(layout, logits(drafts))
    count = sum(LENGTHS)
    ends = torch.tensor(LENGTHS).cumsum(0)
    tokens = torch.zeros(count, drafts, dtype=torch.int64)
    batch = from_flat(tokens, ends, lying(q), lying(p), longest=3)
    starts = ends - torch.tensor(LENGTHS)
    for rows, given, more in ((batch.p, p, 1), (batch.q, q, 0)):
        # Where several drafts are some of more, or one for all positions, there is no one stride.
        if not (layout in (padded, every_other, of_one_position) and drafts > 1):
            assert rows.values.data_ptr() == given.data_ptr()
        for request, length in enumerate(LENGTHS):
            for depth in range(length + more):
                position = int(starts[request]) + depth + more * request
                own = rows.values[rows.at[request, :, depth]]
                assert torch.equal(own, given[position])


# --- what is no token, and rows that do not fit ----------------------------------------------


@pytest.mark.parametrize("smaller", ["target", "draft"])
@pytest.mark.parametrize(("name", "drafts", "form"), IN_FORMS)
def test_a_smaller_vocabulary_never_says_what_is_behind_its_last_token(
    name: str, drafts: int, smaller: str, form: str
) -> None:
    """As rows of the larger one do that give nothing to these tokens."""
    given = dict(zip(("target", "draft"), logits(drafts), strict=True))
    given[smaller][..., V - 2 :] = -torch.inf
    narrow = {**given, smaller: given[smaller][..., : V - 2]}
    for kind in ("logits", "probs"):
        told, wanted = (
            called(
                name,
                drafts,
                form,
                **{
                    f"{model}_{kind}": rows if kind == "logits" else rows.softmax(-1)
                    for model, rows in each.items()
                },
            )
            for each in (narrow, given)
        )
        assert differing(told, wanted) == 0


@pytest.mark.requirement("batch.backends")
@pytest.mark.parametrize(("name", "drafts", "form"), IN_FORMS)
def test_rows_may_lie_anywhere_if_it_is_told_where(name: str, drafts: int, form: str) -> None:
    """By request and step, as an engine keeps them: among others, in another order."""
    generator = torch.Generator().manual_seed(5)
    told: dict[str, Tensor] = {}
    plain: dict[str, Tensor] = {}
    for model, rows in zip(("target", "draft"), logits(drafts), strict=True):
        count = rows.shape[:2].numel()
        place = torch.randperm(2 * count, generator=generator)[:count]
        room = torch.full((2 * count, V + 3), NOISE)
        room[place, :V] = rows.flatten(0, 1)
        told[f"{model}_logits"] = room.view(count, 2, V + 3)[..., :V]
        told[f"{model}_rows"] = place.view(rows.shape[:2]).int()
        plain[f"{model}_logits"] = rows
    if drafts == 1:
        told |= {key: each[:, 0] for key, each in told.items() if key.endswith("_rows")}
    assert differing(called(name, drafts, form, **told), called(name, drafts, form, **plain)) == 0


def _cached(layout: str, count: int) -> Tensor:
    """Return room for rows [R, S, V] of requests and steps, of a layout."""
    if layout == "steps":
        return torch.full((count, 5, V), NOISE)[:, 1:4]
    if layout == "step first":
        return torch.full((3, count, V + 1), NOISE).transpose(0, 1)[..., :V]
    if layout == "apart":
        return torch.full((count, 4, 3, V), NOISE)[:, ::3].flatten(1, 2)[:, ::2]
    return torch.full((count, 3, 2 * V), NOISE)[..., ::2]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", ["steps", "step first", "apart", "every other"])
def test_rows_of_requests_and_steps_are_not_copied(layout: str, form: str) -> None:
    told: dict[str, Tensor] = {}
    plain: dict[str, Tensor] = {}
    for model, rows in zip(("target", "draft"), logits(1), strict=True):
        wanted = rows.flatten(0, 1)
        room = _cached(layout, len(wanted))
        place = torch.arange(len(wanted)).flip(0) * room.shape[1] + 1
        room[place // room.shape[1], place % room.shape[1]] = wanted
        told |= {f"{model}_logits": room, f"{model}_rows": place}
        plain[f"{model}_logits"] = rows
        values = indexed(room, place).values
        assert values.untyped_storage().data_ptr() == room.untyped_storage().data_ptr()
    assert differing(called("block", 1, form, **told), called("block", 1, form, **plain)) == 0


@pytest.mark.parametrize("form", FORMS)
def test_one_row_may_be_that_of_several_paths(form: str) -> None:
    """Of a node of a tree, through which all its paths go."""
    p, q = (rows[:, :1].expand(-1, 3, -1) for rows in logits(3))
    wanted = called("recursive_rejection", 3, form, target_logits=p, draft_logits=q)
    told = called(
        "recursive_rejection",
        3,
        form,
        target_logits=p[:, 0],
        target_rows=torch.arange(len(p)),
        draft_logits=q[:, 0],
        draft_rows=torch.arange(len(q))[:, None].expand(-1, 3),
    )
    assert differing(told, wanted) == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", [-1, 2**40])
def test_a_row_that_is_none_reads_nothing_beyond_the_tensors(number: int, form: str) -> None:
    p, q = logits(1)
    rows = torch.arange(len(p))
    rows[3] = number
    nearest = rows.clamp(0, len(p) - 1)
    first, second = (
        called("block", 1, form, target_logits=p[:, 0], target_rows=each, draft_logits=q[:, 0])
        for each in (rows, nearest)
    )
    assert differing(first, second) == 0


def test_rows_without_a_token_are_refused() -> None:
    with pytest.raises(
        InvalidRequest,
        match=r"target_logits must be rows \[.., V\] with a token at least, got \[2, 0\]",
    ):
        verify(
            "block",
            draft_token_ids=torch.tensor([1]),
            cu_num_draft_tokens=torch.tensor([1]),
            max_spec_len=1,
            target_logits=torch.zeros(2, 0),
            draft_logits=torch.zeros(1, 0),
        )


@pytest.mark.parametrize(("name", "drafts", "form"), IN_FORMS)
def test_a_draft_ends_before_what_is_no_token(name: str, drafts: int, form: str) -> None:
    p, q = logits(drafts)
    tokens = drafted(name, drafts)
    spoilt, ended = tokens.clone(), tokens.clone()
    # The second of the first request's three, the first of the next two, the last of another.
    for position, token in ((1, V), (3, 2**31 - 1), (4, -2), (8, V + 1)):
        spoilt[position, -1], ended[position] = token, -1
    one, other = (
        verify(
            name,
            draft_token_ids=each,
            cu_num_draft_tokens=torch.tensor(LENGTHS).cumsum(0),
            max_spec_len=3,
            target_logits=p,
            draft_logits=q,
            generators=torch.Generator().manual_seed(1),
            form=form,
        )
        for each in (spoilt, ended)
    )
    assert differing(one, other) == 0
    assert (one.token_ids < V).all()


@pytest.mark.parametrize("ends", [[3, 99, 120], [3, 1, 5], [-4, 2, 5]])
@pytest.mark.parametrize("form", FORMS)
def test_ends_that_are_none_read_nothing_beyond_the_tensors(ends: list[int], form: str) -> None:
    generator = torch.Generator().manual_seed(0)
    found = verify(
        "block",
        draft_token_ids=torch.randint(V, (5,), generator=generator),
        cu_num_draft_tokens=torch.tensor(ends),
        max_spec_len=3,
        target_probs=torch.rand(8, V, generator=generator).softmax(-1),
        draft_probs=torch.rand(5, V, generator=generator).softmax(-1),
        form=form,
    )
    assert found.token_ids.shape == (3, 4)
    assert (found.token_ids < V).all()


# --- temperatures ----------------------------------------------------------------------------

TEMPERATURES = (0.0, 1e-45, 1e-39, 1.2e-38, 1e-30, 1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["token", "block", "recursive_greedy_block"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_small_temperatures_take_the_most_probable_token(
    name: str, form: str, dtype: torch.dtype
) -> None:
    """However small, also where it is subnormal, and has no finite reciprocal."""
    generator = torch.Generator().manual_seed(3)
    for temperature in TEMPERATURES:
        p = torch.randn(4, 50, generator=generator, dtype=torch.float64).to(dtype) * 20
        # One most probable token: rounded to bfloat16, there may be several.
        p[torch.arange(4), torch.arange(4) * 7] = 100
        found = verify(
            name,
            draft_token_ids=p[:3].argmax(-1),
            cu_num_draft_tokens=torch.tensor([3]),
            max_spec_len=3,
            target_logits=p,
            draft_logits=p[:3],
            temperature=torch.tensor([temperature]),
            form=form,
        )
        assert found.token_ids.tolist() == [p.argmax(-1).tolist()]


@pytest.mark.requirement("law.lossless")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("size", "temperature"), [(16.0, 1e-6), (1e4, 1e-3), (1.0, 3e-8)])
def test_a_temperature_tells_neighbouring_logits_apart(
    size: float, temperature: float, form: str
) -> None:
    """Logits that differ in the last bit have the odds exp(gap / temperature)."""
    high = torch.tensor(size)
    low = torch.nextafter(high, torch.tensor(0.0))
    row = torch.stack([low, high, -high])
    count = 4000
    found = verify(
        "token",
        draft_token_ids=torch.zeros(0, dtype=torch.int64),
        cu_num_draft_tokens=torch.zeros(count, dtype=torch.int64),
        max_spec_len=0,
        target_logits=row.expand(count, -1),
        temperature=torch.full((count,), temperature),
        generators=torch.Generator().manual_seed(5),
        form=form,
    )
    gap = (high.double() - low.double()) / torch.tensor(temperature).double()
    wanted = float(torch.sigmoid(gap))
    share = float((found.token_ids[:, 0] == 1).double().mean())
    # Hoeffding: a right share is off by more with a probability of 1e-9.
    assert abs(share - wanted) <= (10.8 / count) ** 0.5
    assert 0.5 < wanted < 0.999


# --- small masses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "drafts", "small", "form"),
    [
        (*asked, form)
        for asked in (
            ("block", 1, 8e-8),
            ("multipath_block", 1, 1.5e-16),
            ("mixed_multipath_block", 2, 1.5e-16),
        )
        for form in TEXTS[asked[0]].forms
    ],
)
def test_a_small_mass_keeps_a_prefix_of_weight_one(
    name: str, drafts: int, small: float, form: str
) -> None:
    """With w = 1 the first prefix passes whatever is owed, h = m / (m + 1 - w) = 1."""
    count = 256
    first = torch.tensor([0.5, 0.5, 0.0])
    # Behind the first token little is owed to token 0; what is drafted there is never said. Added
    # to 1 first, it would be rounded up to the eps of its dtype, and h = 2/3.
    p = torch.stack([first, torch.tensor([small, 1 - small, 0.0]), first])
    q = torch.stack([first, torch.tensor([0.0, 1 - 2 * small, 2 * small])])
    found = verify(
        name,
        draft_token_ids=torch.tensor([0, 2]).repeat(count)[:, None].expand(-1, drafts),
        cu_num_draft_tokens=2 * torch.arange(1, count + 1),
        max_spec_len=2,
        target_probs=p.repeat(count, 1)[:, None].expand(-1, drafts, -1),
        draft_probs=q.repeat(count, 1)[:, None].expand(-1, drafts, -1),
        generators=torch.Generator().manual_seed(1),
        form=form,
    )
    assert found.accepted.tolist() == [1] * count
