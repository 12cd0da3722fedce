"""The largest exact flow from sources to sinks along allowed pairs, and the cut that proves it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from math import lcm
from typing import Generic, TypeVar

from draftproof.reference.rational import Rational, rational

Source = TypeVar("Source", bound=Hashable)
Sink = TypeVar("Sink", bound=Hashable)


@dataclass(frozen=True)
class Flow(Generic[Source, Sink]):
    """Maximum flow by pair, and the sources that a minimum cut cuts off.

    The cut consists of those sources, and of every sink that one of the other sources may flow to.
    """

    value: Rational
    plan: Mapping[tuple[Source, Sink], Rational]
    cut: frozenset[Source]


def largest_flow(
    sources: Mapping[Source, Rational],
    sinks: Mapping[Sink, Rational],
    allowed: Callable[[Source, Sink], bool],
) -> Flow[Source, Sink]:
    """Return a maximum flow, solved in integers: every weight times the common denominator."""
    # Importing it takes a quarter of a second, and most laws need no flow.
    import networkx

    scale = lcm(*(int(w.denominator) for w in (*sources.values(), *sinks.values())))
    graph: networkx.DiGraph[object] = networkx.DiGraph()
    graph.add_nodes_from(("start", "end"))
    for source, weight in sources.items():
        graph.add_edge("start", (0, source), capacity=int(weight * scale))
    for sink, weight in sinks.items():
        graph.add_edge((1, sink), "end", capacity=int(weight * scale))
        for source in sources:
            if allowed(source, sink):
                graph.add_edge((0, source), (1, sink))
    residual = networkx.algorithms.flow.preflow_push(graph, "start", "end")
    spare = networkx.DiGraph(
        (u, v) for u, v, edge in residual.edges(data=True) if edge["flow"] < edge["capacity"]
    )
    spare.add_node("end")
    beyond = networkx.ancestors(spare, "end")
    return Flow(
        rational(residual.graph["flow_value"]) / scale,
        {
            (source, sink): rational(amount) / scale
            for source in sources
            for sink in sinks
            if graph.has_edge((0, source), (1, sink))
            and (amount := residual[(0, source)][(1, sink)]["flow"]) > 0
        },
        frozenset(source for source in sources if (0, source) in beyond),
    )
