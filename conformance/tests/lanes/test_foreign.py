"""Randomness from elsewhere is noticed."""

from __future__ import annotations

import gc
import importlib
import os
import random
import secrets
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy
import pytest
import torch

from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.lanes.opaque import OpaqueRandomness

PRIVATE = numpy.random.default_rng()
PYTHONS = random.Random()
SYSTEM = random.SystemRandom()


@pytest.fixture(autouse=True)
def _found() -> Iterator[None]:
    """Let the generators above be found, which were kept out of searches: see conftest.py."""
    gc.unfreeze()
    yield
    gc.freeze()


def in_a_pool() -> list[bool]:
    u = torch.rand(2)
    with ThreadPoolExecutor(1) as pool:
        return list(pool.map(lambda i: bool(u[i] < 0.5), range(2)))


def in_a_thread() -> None:
    Thread(target=print).start()


def caught() -> int:
    try:
        return len(os.urandom(1))
    except OpaqueRandomness:
        return 1


FOREIGN: dict[str, tuple[Callable[[], Any], str]] = {
    "python": (lambda: random.gauss(0, 1) < 2, "random.gauss is not followed"),
    "numpy": (lambda: bool(numpy.random.randn() < 2), "numpy.random.RandomState.randn"),
    "a private generator of numpy": (
        lambda: bool(PRIVATE.normal() < 2),
        "numpy.random.Generator.normal is not followed; these are: .*choice",
    ),
    "a private generator's bits": (lambda: PRIVATE.bit_generator.random_raw() * 0, "PCG64"),
    "a private generator of python": (lambda: PYTHONS.gauss() < 2, "random.gauss"),
    "the system": (lambda: len(os.urandom(1)), "urandom draws noise of the operating system"),
    "the system's generator": (lambda: len(SYSTEM.randbytes(1)), "SystemRandom.randbytes"),
    "a secret": (lambda: len(secrets.token_bytes(1)), "SystemRandom.randbytes"),
    "a unique number": (lambda: uuid.uuid4().version, "urandom"),
    "a caught refusal": (caught, "urandom"),
    "a seed": (lambda: str(torch.manual_seed(1))[:0], "torch's global generator"),
    "a pool": (in_a_pool, "is a new thread"),
    "a thread": (in_a_thread, "is a new thread"),
}


@pytest.mark.parametrize(("program", "who"), FOREIGN.values(), ids=FOREIGN)
def test_a_generator_that_is_not_followed_is_named(program: Callable[[], Any], who: str) -> None:
    with pytest.raises(OpaqueRandomness, match=who):
        exact_law(program)


def test_nothing_is_guarded_afterwards() -> None:
    exact_law(lambda: random.random() < 0.5)
    assert len(os.urandom(1)) == 1
    assert 0 <= random.random() < 1


def test_a_module_that_is_imported_may_draw_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "draws_when_imported.py").write_text("import random\nOWN = random.Random()\n")
    monkeypatch.syspath_prepend(tmp_path)

    def program() -> bool:
        importlib.import_module("draws_when_imported")
        return bool(torch.rand(()) < 0.5)

    assert len(exact_law(program).law) == 2


def test_a_seed_is_noticed_in_every_law() -> None:
    """Also where the generator has that seed already, from a law before."""

    def program() -> bool:
        torch.manual_seed(1)
        return bool(torch.rand(()) < 0.5)

    for _ in range(3):
        with pytest.raises(OpaqueRandomness, match="torch's global generator"):
            exact_law(program)


def test_a_private_generator_is_noticed_in_every_law() -> None:
    for _ in range(2):
        with pytest.raises(OpaqueRandomness, match="PCG64"):
            exact_law(lambda: PRIVATE.bit_generator.random_raw() * 0)


def test_a_law_leaves_the_global_generators_as_they_were() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    exact_law(lambda: bool(torch.rand(()) < 0.5))
    assert torch.equal(torch.rand(3), expected)


def test_a_program_that_depends_on_its_past_is_noticed() -> None:
    calls: list[int] = []

    def program() -> int:
        calls.append(1)
        return len(calls)

    with pytest.raises(OpaqueRandomness, match="in another with the same random choices"):
        exact_law(program)


def test_every_part_of_a_program_is_searched_once() -> None:
    """Programs that share a wrapper do not share a search."""

    def honest() -> int:
        return 0

    def dishonest() -> bool:
        return bool(PRIVATE.bit_generator.random_raw() < 0)

    def wrapped(inner: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: inner()

    def call(inner: Callable[[], Any]) -> Any:
        return inner()

    assert exact_law(wrapped(honest)).runs == 1
    with pytest.raises(OpaqueRandomness):
        exact_law(wrapped(dishonest))
    assert exact_law(partial(call, honest)).runs == 1
    with pytest.raises(OpaqueRandomness):
        exact_law(partial(call, dishonest))


def test_threads_may_start_again_afterwards() -> None:
    exact_law(lambda: 0)
    thread = Thread(target=list)
    thread.start()
    thread.join()


def test_a_generator_that_the_program_seeds_draws_nothing_random() -> None:
    def program() -> torch.Tensor:
        generator = torch.Generator().manual_seed(7)
        return torch.rand(1, generator=generator) < 0.5

    with pytest.raises(OpaqueRandomness, match="fixes what is drawn") as failure:
        exact_law(program)
    assert "Generator().manual_seed(7)" in failure.value.source


def test_a_generator_that_is_made_and_seeded_by_another_name_is_refused() -> None:
    """It draws one of sixteen numbers, which the lane would take for any."""
    made = torch.Generator

    def program() -> torch.Tensor:
        generator = made().manual_seed(int(torch.randint(0, 16, ())))
        return torch.rand(1, generator=generator) < 0.5

    with pytest.raises(OpaqueRandomness, match="is made by the program in each run"):
        exact_law(program)


def test_generators_from_outside_may_be_met_in_some_runs_only() -> None:
    ours = [torch.Generator().manual_seed(seed) for seed in (7, 8)]

    def program() -> tuple[bool, bool]:
        first = bool(torch.rand((), generator=ours[0]) < 0.5)
        return first, first and bool(torch.rand((), generator=ours[1]) < 0.5)

    assert {outcome: str(weight) for outcome, weight in exact_law(program).law.items()} == {
        (True, True): "1/4",
        (True, False): "1/4",
        (False, False): "1/2",
    }


def test_memory_that_is_handed_out_in_a_capsule_is_refused() -> None:
    def program() -> torch.Tensor:
        token = torch.multinomial(torch.tensor([0.25, 0.75]), 1)
        handed_out: torch.Tensor = torch.utils.dlpack.from_dlpack(vars(torch)["to_dlpack"](token))
        return handed_out

    with pytest.raises(OpaqueRandomness, match="hands out a tensor's memory"):
        exact_law(program)


def test_a_refusal_that_is_caught_is_a_refusal_still() -> None:
    def program() -> int:
        try:
            torch.Generator().manual_seed(7)
        except RuntimeError:
            return 0
        return 1

    with pytest.raises(OpaqueRandomness, match="fixes what is drawn"):
        exact_law(program)


def test_a_generator_from_outside_may_be_of_any_seed() -> None:
    generator = torch.Generator().manual_seed(7)
    law = exact_law(lambda: torch.rand(1, generator=generator) < 0.5).law
    assert {outcome: str(weight) for outcome, weight in law.items()} == {
        (True,): "1/2",
        (False,): "1/2",
    }


def test_a_generator_that_was_not_made_to_its_end_disturbs_nobody() -> None:
    """`random.Random(x)` leaves one behind where it refuses x; it is found among live objects."""
    half_made = random.Random.__new__(random.Random)
    law = exact_law(lambda: bool(torch.rand(()) < 0.5)).law
    assert set(law) == {True, False}
    del half_made


# --- what a generator draws again --------------------------------------------------------------


def rewound() -> tuple[bool, ...]:
    state = torch.get_rng_state()
    first = bool(torch.rand(()) < 0.5)
    torch.set_rng_state(state)
    return first, bool(torch.rand(()) < 0.5)


def forked() -> tuple[bool, ...]:
    with torch.random.fork_rng():
        first = bool(torch.rand(()) < 0.5)
    return first, bool(torch.rand(()) < 0.5)


def copied() -> tuple[bool, ...]:
    own = torch.Generator()
    own.seed()
    other = own.clone_state()
    return tuple(bool(torch.rand((), generator=each) < 0.5) for each in (own, other))


def unseeded() -> bool:
    return bool(torch.rand((), generator=torch.Generator()) < 0.5)


def set_anew() -> bool:
    own = torch.Generator()
    own.set_state(torch.Generator().get_state())
    return bool(torch.rand((), generator=own) < 0.5)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (rewound, "whose state the program has set"),
        (forked, "whose state the program has set"),
        (copied, "a copy of another generator"),
        (unseeded, "a generator without a seed"),
        (set_anew, "fixes what is drawn"),
    ],
)
def test_numbers_that_are_drawn_again_are_not_followed(
    program: Callable[[], Any], reason: str
) -> None:
    with pytest.raises(OpaqueRandomness, match=reason):
        exact_law(program)


def test_generators_that_go_on_are_followed_and_left_as_they_were() -> None:
    own = torch.Generator().manual_seed(5)
    before, global_before = own.get_state(), torch.get_rng_state()

    def both() -> tuple[bool, ...]:
        given = (own, None, own, None)
        return tuple(bool(torch.rand((), generator=each) < 0.5) for each in given)

    assert len(exact_law(both).law) == 16
    assert torch.equal(own.get_state(), before)
    assert torch.equal(torch.get_rng_state(), global_before)
