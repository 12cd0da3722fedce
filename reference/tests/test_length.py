from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.model import Instance, Path, instance_from_json, instance_to_json
from draftproof.reference.optimum import (
    LengthOptimum,
    NotOptimal,
    StatelessOptimum,
    check,
    stateful,
    stateless,
)
from draftproof.reference.rational import Rational, rational

exact = settings.get_profile("exact")

Optimum = Callable[[Instance], LengthOptimum]
Document = dict[str, Any]
Paths = frozenset[Path]

either = pytest.mark.parametrize("optimum", [stateless, stateful])


# A stranger's judgement: the schema's words in `Fraction`s, the drafts drawn one by one.


def tree_of(document: Document) -> list[Path]:
    size, length = document["vocabulary"], document["length"]
    return [x for depth in range(1, length + 1) for x in product(range(size), repeat=depth)]


def row_of(document: Document, model: str, context: Path) -> list[Fraction]:
    rows = document[model]
    row = rows if isinstance(rows, list) else rows[",".join(map(str, context))]
    return [Fraction(entry) for entry in row]


def siblings(scheme: str, q: list[Fraction], width: int) -> Iterator[tuple[Path, Fraction]]:
    """Yield tokens that are drawn together, some of them in several ways."""
    likeliest = sorted((t for t in range(len(q)) if q[t]), key=lambda t: (-q[t], t))
    if width == 0 or (width == 1 and scheme != "without_replacement"):
        yield from (((t,), q[t]) for t in likeliest) if width else [((), Fraction(1))]
    elif scheme in ("iid", "without_replacement"):
        for t in likeliest:
            rest = q
            if scheme == "without_replacement":
                left = 1 - q[t]
                rest = [q[u] / left if left and u != t else Fraction(0) for u in range(len(q))]
            if not any(rest):
                yield (t,), q[t]
            else:
                for others, mass in siblings(scheme, rest, width - 1):
                    yield (t, *others), q[t] * mass
    else:  # the hub and the greedy draft give the same sets
        top, last = tuple(likeliest[: width - 1]), likeliest[width - 1 :]
        left = sum((q[t] for t in last), Fraction(0))
        yield from (((*top, t), q[t] / left) for t in last) if last else [(top, Fraction(1))]


def drawn(document: Document) -> dict[Paths, Fraction]:
    """Return the law of the set of drafted paths."""
    scheme = "iid" if document["scheme"] == "tree" else document["scheme"]
    length = document["length"]
    widths = document.get("branching", [document["drafts"], *[1] * (length - 1)])

    def below(node: Path) -> dict[Paths, Fraction]:
        if len(node) == length:
            return {frozenset([node]): Fraction(1)}
        law: dict[Paths, Fraction] = {}
        row = row_of(document, "draft", node)
        for tokens, mass in siblings(scheme, row, widths[len(node)]):
            grown = {frozenset[Path](): mass}
            for token in tokens:
                more = below((*node, token))
                grown = merged((a | b, u * v) for a, u in grown.items() for b, v in more.items())
            law = merged((*law.items(), *grown.items()))
        return law

    return below(())


def merged(entries: Any) -> dict[Paths, Fraction]:
    law: dict[Paths, Fraction] = {}
    for paths, mass in entries:
        law[paths] = law.get(paths, Fraction(0)) + mass
    return law


def proves(kind: str, document: Document, found: Document) -> bool:
    """Judge what `--json` prints."""
    certificate, law, tree = found["certificate"], drawn(document), tree_of(document)
    named = {",".join(map(str, x)): x for x in tree if any(passes(d, x) for d in law)}
    tables = ("budget", "target_price", "draft_price")
    if any(set(certificate[table]) != set(named) for table in tables):
        return False
    a, s, t = ({named[x]: Fraction(e) for x, e in certificate[table].items()} for table in tables)
    nodes, a[()] = list(named.values()), Fraction(1)
    hangs: dict[Path, tuple[Path, Fraction]] = {}
    for x in nodes:
        each = [row_of(document, "target", x[:i])[x[i]] for i in range(len(x))]
        joint = Fraction(1)
        for p in each:
            joint *= p
        hangs[x] = (x[:-1], each[-1]) if kind == "stateless" else ((), joint)

    def charged(x: Path) -> Fraction:
        return sum((s[y] * share for y, (base, share) in hangs.items() if base == x), Fraction(0))

    leaves = sorted(x for x in nodes if len(x) == document["length"])
    selected = dict.fromkeys(nodes, Fraction(0))
    weights = [Fraction(entry["weight"]) for entry in certificate["selection"]]
    for weight, entry in zip(weights, certificate["selection"], strict=True):
        order = [tuple(map(int, path.split(","))) for path in entry["order"]]
        if sorted(order) != leaves:
            return False
        for paths, mass in law.items():
            highest = max(paths, key=order.index)
            for size in range(1, len(highest) + 1):
                selected[highest[:size]] += weight * mass
    worth = {
        path: sum((t[path[:size]] for size in range(1, len(path) + 1)), Fraction(0))
        for path in leaves
    }
    bound = charged(()) + sum(
        mass * max(map(worth.__getitem__, paths)) for paths, mass in law.items()
    )
    return (
        min(weights) >= 0
        and sum(weights) == 1
        and all(0 <= a[x] <= min(selected[x], hangs[x][1] * a[hangs[x][0]]) for x in nodes)
        and all(min(s[x], t[x], s[x] + t[x] - 1 - charged(x)) >= 0 for x in nodes)
        and sum(a[x] for x in nodes) == bound == Fraction(found["value"])
    )


def passes(paths: Paths, prefix: Path) -> bool:
    return any(path[: len(prefix)] == prefix for path in paths)


@pytest.mark.requirement("length.bounded", "length.optimal")
@either
@settings(exact, max_examples=80)
@given(data=st.data())
def test_the_certificate_convinces_us_and_a_stranger(
    drafted: Any, optimum: Optimum, data: st.DataObject
) -> None:
    instance = data.draw(drafted())
    best = optimum(instance)
    check(best, instance)
    assert proves(optimum.__name__, instance_to_json(instance), best.to_json())


@either
@settings(exact, max_examples=80)
@given(instance=...)
def test_so_does_that_of_one_draft(optimum: Optimum, instance: Instance) -> None:
    best = optimum(instance)
    assert proves(optimum.__name__, instance_to_json(instance), best.to_json())
    assert len(best.selection) == 1


def test_a_certificate_is_written_in_tables(motivating: Instance) -> None:
    document = stateless(replace(motivating, length=1, drafts=1)).to_json()
    assert document == {
        "value": "2/3",
        "certificate": {
            "budget": {"0": "1/3", "1": "1/3"},
            "target_price": {"0": "1", "1": "0"},
            "draft_price": {"0": "0", "1": "1"},
            "selection": [{"weight": "1", "order": ["0", "1"]}],
        },
    }


# What proves nothing. One draft:

A, B = (0,), (1,)
AA, AB = (0, 0), (0, 1)


def with_table(best: LengthOptimum, table: str, entries: Mapping[Path, Rational]) -> LengthOptimum:
    changed: dict[str, Any] = {table: entries}
    return replace(best, **changed)


def with_entry(best: LengthOptimum, table: str, prefix: Path, by: str) -> LengthOptimum:
    entries = dict(getattr(best, table))
    entries[prefix] += rational(by)
    return with_table(best, table, entries)


@pytest.mark.requirement("length.bounded", "length.optimal")
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
    assert not proves("stateless", instance_to_json(motivating), forged.to_json())


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
    best = stateless(motivating)
    entries = dict(getattr(best, table))
    if change == "less":
        del entries[AB]
    else:
        entries[0, 0, 0] = rational(0)
    with pytest.raises(NotOptimal) as refusal:
        check(with_table(best, table, entries), motivating)
    assert str(refusal.value) == (
        "the certificate must name every prefix that can be drafted, and no other"
    )


def test_a_stateful_budget_is_no_stateless_one(motivating: Instance) -> None:
    best = stateful(motivating)
    forged = StatelessOptimum(
        best.value, best.budget, best.target_price, best.draft_price, best.selection
    )
    with pytest.raises(NotOptimal, match="exceeds its bounds"):
        check(forged, motivating)


# Several drafts:


@pytest.fixture(scope="module")
def mixed() -> Instance:
    """Return an instance whose optimum mixes two orders."""
    return instance_from_json(
        {"vocabulary": 2, "length": 1, "drafts": 2, "target": ["3/5", "2/5"], "draft": ["1/2"] * 2}
    )


@pytest.mark.parametrize(
    ("weights", "orders", "message"),
    [
        (["1"], [[A, B]], "the budget 3/5 at (0,) exceeds its bounds"),
        (["3/5", "3/5"], None, "the weights of the orders must not be negative, and sum to 1"),
        (["-1", "2"], None, "the weights of the orders must not be negative, and sum to 1"),
        ([], [], "the weights of the orders must not be negative, and sum to 1"),
        (
            ["1/2", "1/2"],
            [[A, B], [A]],
            "an order must rank every path that can be drafted once, and no other",
        ),
        (
            ["1"],
            [[A, A, B]],
            "an order must rank every path that can be drafted once, and no other",
        ),
    ],
)
def test_a_selection_that_is_none_is_refused(
    mixed: Instance, weights: list[str], orders: list[list[Path]] | None, message: str
) -> None:
    best = stateless(mixed)
    assert len(best.selection) == 2
    if orders is None:
        orders = [list(order) for _, order in best.selection]
    selection = tuple((rational(w), tuple(order)) for w, order in zip(weights, orders, strict=True))
    with pytest.raises(NotOptimal) as refusal:
        check(replace(best, selection=selection), mixed)
    assert str(refusal.value) == message


amounts = st.fractions(-1, 1, max_denominator=100).filter(bool)


@either
@settings(exact, max_examples=60)
@given(amount=amounts, data=st.data())
def test_no_other_budget_price_or_value_is_accepted(
    drafted: Any, optimum: Optimum, amount: Fraction, data: st.DataObject
) -> None:
    """A budget enters a total, and a price that is too low undercuts."""
    instance = data.draw(drafted())
    best = optimum(instance)
    prefix = data.draw(st.sampled_from(sorted(best.budget)))
    for forged in (
        with_entry(best, "budget", prefix, str(amount)),
        with_entry(best, "draft_price", prefix, str(-abs(amount))),
        with_entry(best, "target_price", prefix, str(-abs(amount))),
        replace(best, value=best.value + rational(amount)),
    ):
        with pytest.raises(NotOptimal):
            check(forged, instance)
        assert not proves(optimum.__name__, instance_to_json(instance), forged.to_json())
