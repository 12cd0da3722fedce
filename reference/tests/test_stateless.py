from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance, Path, context_key, instance_to_json
from draftproof.reference.optimum import NotOptimal, StatelessOptimum, check, stateless
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import Rational, rational
from draftproof.reference.verifiers import ALGORITHMS, emission_law

exact = settings.get_profile("exact")

Certificate = dict[str, Any]


def written(optimum: StatelessOptimum) -> Certificate:
    """Return the optimum in strings."""

    def table(entries: Mapping[Path, Rational]) -> dict[str, str]:
        return {context_key(prefix): str(entry) for prefix, entry in entries.items()}

    return {
        "value": str(optimum.value),
        "budget": table(optimum.budget),
        "target_price": table(optimum.target_price),
        "draft_price": table(optimum.draft_price),
    }


def proves(document: dict[str, Any], certificate: Certificate) -> bool:
    """Judge a certificate by the linear program alone, on strings and `Fraction`.

    The program is over all prefixes. One that the certificate leaves out has no budget and, as
    its draft price multiplies a zero, any price: one suffices.
    """
    size, length = document["vocabulary"], document["length"]
    tree = [x for depth in range(1, length + 1) for x in product(range(size), repeat=depth)]

    def entry(table: str, x: Path, absent: str) -> Fraction:
        return Fraction(certificate[table].get(",".join(map(str, x)), absent))

    def given_by(model: str, x: Path) -> Fraction:
        rows = document[model]
        row = rows if isinstance(rows, list) else rows[",".join(map(str, x[:-1]))]
        return Fraction(row[x[-1]])

    p = {x: given_by("target", x) for x in tree}
    q: dict[Path, Fraction] = {(): Fraction(1)}
    a: dict[Path, Fraction] = {(): Fraction(1)}
    for x in tree:
        q[x] = q[x[:-1]] * given_by("draft", x)
        a[x] = entry("budget", x, "0")
    u = {x: entry("target_price", x, "0") for x in tree}
    v = {x: entry("draft_price", x, "1") for x in tree}

    def children(x: Path) -> Fraction:
        return sum((p[y] * u[y] for y in tree if y[:-1] == x), Fraction(0))

    primal = all(0 <= a[x] <= min(a[x[:-1]] * p[x], q[x]) for x in tree)
    dual = all(min(u[x], v[x], u[x] + v[x] - 1 - children(x)) >= 0 for x in tree)
    earned = sum(a[x] for x in tree)
    charged = children(()) + sum(q[x] * v[x] for x in tree)
    return primal and dual and earned == charged == Fraction(certificate["value"])


@exact
@given(instance=...)
def test_the_certificate_convinces_us_and_a_stranger(instance: Instance) -> None:
    optimum = stateless(instance)
    check(optimum, instance)
    assert proves(instance_to_json(instance), written(optimum))


@exact
@given(instance=...)
def test_block_reaches_the_optimum_at_every_prefix_and_token_does_not_exceed_it(
    instance: Instance,
) -> None:
    optimum = stateless(instance)
    block, token = (emission_law(ALGORITHMS[name], instance) for name in ("block", "token"))
    assert expected_accepted(token) <= expected_accepted(block) == optimum.value
    for size in range(1, instance.length + 1):
        kept = block.map(partial(first_accepted, size))
        for prefix, budget in optimum.budget.items():
            assert len(prefix) != size or kept[prefix] == budget


def first_accepted(size: int, emission: Emission) -> Path:
    return emission.accepted[:size]


def test_the_motivating_example(motivating: Instance) -> None:
    optimum = stateless(motivating)
    assert optimum.value == rational("11/9")
    assert proves(instance_to_json(motivating), written(optimum))


def test_more_than_one_draft_is_unsupported(motivating: Instance) -> None:
    with pytest.raises(Unsupported) as refusal:
        stateless(replace(motivating, drafts=2))
    assert str(refusal.value) == (
        "the stateless optimum is known for one i.i.d. draft, the instance has 2 (iid)"
    )
    with pytest.raises(Unsupported) as refusal:
        stateless(replace(motivating, scheme="hub"))
    assert str(refusal.value) == (
        "the stateless optimum is known for one i.i.d. draft, the instance has 1 (hub)"
    )


# What proves nothing.

A, B = (0,), (1,)
AA, AB = (0, 0), (0, 1)


def with_table(
    optimum: StatelessOptimum, table: str, entries: Mapping[Path, Rational]
) -> StatelessOptimum:
    changed: dict[str, Any] = {table: entries}
    return replace(optimum, **changed)


def with_entry(optimum: StatelessOptimum, table: str, prefix: Path, by: str) -> StatelessOptimum:
    entries = dict(getattr(optimum, table))
    entries[prefix] += rational(by)
    return with_table(optimum, table, entries)


@pytest.mark.parametrize(
    ("table", "prefix", "by", "message"),
    [
        ("budget", A, "1/100", "the budget 103/300 at (0,) exceeds its bounds"),
        ("budget", B, "1/100", "the budget 103/300 at (1,) exceeds its bounds"),
        ("budget", A, "-1/2", "the budget -1/6 at (0,) exceeds its bounds"),
        ("budget", AB, "-1/100", "budget 1091/900, prices 11/9 and value 11/9 differ"),
        ("draft_price", AA, "-2", "a price at (0, 0) is negative"),
        ("target_price", A, "-5", "a price at (0,) is negative"),
        ("target_price", A, "-1/9", "the prices at (0,) undercut the objective"),
        ("draft_price", AB, "1/9", "budget 11/9, prices 101/81 and value 11/9 differ"),
    ],
)
def test_a_certificate_with_one_wrong_entry_is_refused(
    motivating: Instance, table: str, prefix: Path, by: str, message: str
) -> None:
    forged = with_entry(stateless(motivating), table, prefix, by)
    with pytest.raises(NotOptimal) as refusal:
        check(forged, motivating)
    assert str(refusal.value) == message
    assert not proves(instance_to_json(motivating), written(forged))


def test_another_value_is_refused(motivating: Instance) -> None:
    forged = replace(stateless(motivating), value=rational("12/9"))
    with pytest.raises(NotOptimal) as refusal:
        check(forged, motivating)
    assert str(refusal.value) == "budget 11/9, prices 11/9 and value 4/3 differ"


@pytest.mark.parametrize("table", ["budget", "target_price", "draft_price"])
@pytest.mark.parametrize("change", ["less", "more"])
def test_a_certificate_names_every_prefix_and_no_other(
    motivating: Instance, table: str, change: str
) -> None:
    optimum = stateless(motivating)
    entries = dict(getattr(optimum, table))
    if change == "less":
        del entries[AB]
    else:
        entries[0, 0, 0] = rational(0)
    with pytest.raises(NotOptimal) as refusal:
        check(with_table(optimum, table, entries), motivating)
    assert str(refusal.value) == (
        "the certificate must name every prefix that can be drafted, and no other"
    )


def test_the_certificate_of_another_instance_is_refused(motivating: Instance) -> None:
    swapped = replace(motivating, target=motivating.draft, draft=motivating.target)
    with pytest.raises(NotOptimal):
        check(stateless(motivating), swapped)


amounts = st.fractions(-1, 1, max_denominator=100).filter(bool)


@exact
@given(instance=..., amount=amounts, data=st.data())
def test_no_other_budget_draft_price_or_value_is_accepted(
    instance: Instance, amount: Fraction, data: st.DataObject
) -> None:
    """Each of them enters a total with a positive weight, so one wrong entry cannot hide."""
    optimum = stateless(instance)
    prefix = data.draw(st.sampled_from(sorted(optimum.budget)))
    for forged in (
        with_entry(optimum, "budget", prefix, str(amount)),
        with_entry(optimum, "draft_price", prefix, str(amount)),
        with_entry(optimum, "target_price", prefix, str(-abs(amount))),
        replace(optimum, value=optimum.value + rational(amount)),
    ):
        with pytest.raises(NotOptimal):
            check(forged, instance)
        assert not proves(instance_to_json(instance), written(forged))
