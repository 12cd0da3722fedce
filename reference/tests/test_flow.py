from __future__ import annotations

from itertools import chain, combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.optimum.flow import largest_flow
from draftproof.reference.rational import ZERO, Rational, rational, total

exact = settings.get_profile("exact")
few = settings(exact, max_examples=100)

Weights = dict[int, Rational]
Pairs = set[tuple[int, int]]

amounts = st.integers(0, 20).map(lambda twelfths: rational(twelfths) / 12)
sides = st.lists(amounts, min_size=1, max_size=4).map(lambda given: dict(enumerate(given)))
pairs = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)))


def smallest_cut(sources: Weights, sinks: Weights, pairs: Pairs) -> Rational:
    """Cut off every set of sources in turn, and every sink that one of the others flows to."""
    sets = chain.from_iterable(combinations(sources, size) for size in range(len(sources) + 1))
    return min(cut_at(set(off), sources, sinks, pairs) for off in sets)


def cut_at(off: set[int], sources: Weights, sinks: Weights, pairs: Pairs) -> Rational:
    reached = {sink for source, sink in pairs if source in sources and source not in off}
    return total(sources[i] for i in off) + total(sinks[j] for j in reached if j in sinks)


@few
@given(sources=sides, sinks=sides, pairs=pairs)
def test_the_largest_flow_is_the_smallest_cut(
    sources: Weights, sinks: Weights, pairs: Pairs
) -> None:
    flow = largest_flow(sources, sinks, lambda source, sink: (source, sink) in pairs)
    assert flow.value == total(flow.plan.values()) == smallest_cut(sources, sinks, pairs)
    assert flow.value == cut_at(set(flow.cut), sources, sinks, pairs)
    assert set(flow.plan) <= pairs
    assert all(weight > 0 for weight in flow.plan.values())
    for i, weight in sources.items():
        assert total(w for (source, _), w in flow.plan.items() if source == i) <= weight
    for j, weight in sinks.items():
        assert total(w for (_, sink), w in flow.plan.items() if sink == j) <= weight


def test_nothing_flows_where_nothing_is_allowed() -> None:
    one = {0: rational(1)}
    flow = largest_flow(one, one, lambda source, sink: False)
    assert (flow.value, dict(flow.plan)) == (ZERO, {})
    assert largest_flow({}, one, lambda source, sink: True).value == 0
