"""Numbers by counter: Philox as its authors publish it, and what an engine may count on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from draftproof.adapters.fast import TEXTS, verify
from draftproof.adapters.fast.counters import MARK, column, numbers, philox

WORD = 2**32 - 1


def words(*values: int) -> tuple[Tensor, ...]:
    return tuple(torch.tensor([value]) for value in values)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((WORD,) * 4, (WORD,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_is_the_published_one(
    counter: tuple[int, ...], key: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """The known answers of Random123's own tests."""
    a, b, c, d = words(*counter)
    x, y = words(*key)
    assert tuple(int(word) for word in philox((a, b, c, d), (x, y))) == expected


def test_numbers_are_doubles_of_53_bits_in_the_unit_interval() -> None:
    seeds, positions = torch.arange(64) - 32, torch.arange(64) * 2**33
    found = numbers(seeds, positions, [column(0, depth) for depth in range(64)])
    assert found.dtype == torch.float64
    assert bool(((found >= 0) & (found < 1)).all())
    assert torch.equal(found * 2**53, (found * 2**53).floor())
    assert len({*found.flatten().tolist()}) == found.numel()


def test_seeds_positions_and_columns_are_told_apart() -> None:
    """Each bit of a seed, of a position and of a column is another number."""
    bits = torch.tensor([0, *(1 << bit for bit in range(63)), -(2**63)])
    none = torch.zeros_like(bits)
    by_seed, by_position = (numbers(*pair, [7])[:, 0] for pair in ((bits, none), (none, bits)))
    columns = [column(lane, depth) for lane in range(8) for depth in range(64)]
    by_column = numbers(none[:1], none[:1], [*columns, MARK])[0]
    for found in (by_seed, by_position, by_column):
        assert len({*found.tolist()}) == len(found)


def flat(longest: int) -> dict[str, object]:
    generator = torch.Generator().manual_seed(3)
    rows = torch.rand(40, 5, generator=generator).softmax(-1)
    return {
        "draft_token_ids": torch.randint(5, (16,), generator=generator),
        "cu_num_draft_tokens": torch.tensor([2, 4, 4, 7, 9, 12, 13, 16]),
        "max_spec_len": longest,
        "target_probs": rows[:24],
        "draft_probs": rows[24:],
    }


@pytest.mark.requirement("random.reproducible")
@pytest.mark.parametrize(
    ("name", "form"), [(name, form) for name, text in TEXTS.items() for form in text.forms]
)
def test_a_seed_tells_the_same_whatever_an_engine_drafts_at_most(name: str, form: str) -> None:
    called = {"seeds": torch.arange(8) ** 9, "positions": torch.arange(8) + 5, "form": form}
    short, long = (verify(name, **flat(longest), **called) for longest in (3, 6))  # type: ignore[arg-type]
    assert torch.equal(short.accepted, long.accepted)
    assert torch.equal(short.token_ids, long.token_ids[:, :4])
    assert torch.equal(short.num_sampled, short.accepted + 1)


def test_another_position_is_another_number() -> None:
    seeds = torch.arange(8)
    one, other = (
        numbers(seeds, torch.full_like(seeds, position), [column(0, 0), MARK])
        for position in (5, 6)
    )
    assert not bool((one == other).any())
