"""Plots of what was measured, as SVG that stands alone: in light, and in dark where that is wanted.

A drawing brings its own paper, so that it is legible wherever it is shown. It is 700 units wide,
as wide as a page of text, and its letters keep the size of that text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from draftproof.conformance.report import drawing
from draftproof.conformance.report.drawing import UNIT, insert

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLORS = {
    "ink": ("#1b1d1f", "#e4e6e8"),
    "muted": ("#5a6068", "#a0a7af"),
    "line": ("#d5d8dc", "#3b4148"),
    "blue": ("#22598f", "#86b6ea"),
    "red": ("#b3261e", "#ff8f85"),
    "green": ("#1a6b32", "#74c98a"),
    "orange": ("#b35900", "#f0a860"),
    "purple": ("#6a3fa0", "#bfa2ee"),
    "teal": ("#00707a", "#5cc8d0"),
}
"""On light paper, and on dark."""

_PAPER = "#ffffff", "#15181b"

_INKS = drawing.inks(*_COLORS)

_WIDTH = 700

_LETTER = 15
"""The height of a line of letters."""

_MOST_TICKS = 6


def _look(color: str, *, dashed: bool = False, marker: str = "o") -> dict[str, Any]:
    """Return how matplotlib draws one verifier in every drawing."""
    return {"color": _INKS[color], "linestyle": (0, (4, 2)) if dashed else "-", "marker": marker}


_LOOKS = {
    "token": _look("muted"),
    "block": _look("blue"),
    "greedy_block": _look("red", dashed=True),
    "recursive_rejection": _look("orange"),
    "recursive_rejection_without_replacement": _look("orange", dashed=True),
    "k_seq": _look("muted", dashed=True),
    "spechub": _look("purple"),
    "greedy_draft": _look("purple", dashed=True),
    "multipath_block": _look("teal"),
    "mixed_multipath_block": _look("teal", dashed=True),
    "scored_multipath_block": _look("blue", marker="D"),
    "scored_greedy_block": _look("red", marker="D"),
    "traversal": _look("green"),
    "traversal_without_replacement": _look("green", dashed=True),
    "recursive_greedy_block": _look("red"),
    "batched": _look("orange", marker="s"),
    "listing": _look("green", marker="^"),
    "transformers": _look("purple", marker="D"),
    "torch token": _look("muted", dashed=True),
    "torch block": _look("blue", dashed=True),
    "triton token": _look("muted"),
    "triton block": _look("blue"),
    "vllm v1 token": _look("teal", marker="s"),
    "vllm v2 token": _look("green", marker="s"),
    "vllm v2 block": _look("green", dashed=True, marker="s"),
    "flashinfer token": _look("purple", marker="D"),
    "sglang token": _look("red", marker="^"),
    "sglang block": _look("red", dashed=True, marker="^"),
}

_WAYS = {
    "unchecked": "from probabilities",
    "checked": "the same, checked",
    "logits": "from logits",
}


def cpu_times(found: Mapping[str, Any]) -> str:
    """Return how long each call takes, as a multiple of our token verifier's."""
    aim = found["targets"]["block_to_token"]
    told = (
        "A row for every size: the time of each call over that of token verification, the same way "
        f"in. Bars are quartiles. The dashed line is what is aimed at for block, {aim}."
    )
    return _by_size(
        found,
        title="Time, as a multiple of token verification",
        told=told,
        aim=aim,
        names=("block", "batched", "listing", "transformers"),
        value=lambda row: row["to_token"],
    )


def cpu_memory(found: Mapping[str, Any]) -> str:
    """Return the peak memory of each call, as a multiple of its input."""
    aim = found["targets"]["peak_to_input"]

    def peak(row: Mapping[str, Any]) -> Mapping[str, float] | None:
        return row["peak"] and dict.fromkeys(("low", "median", "high"), row["peak"])

    told = (
        "A row for every size: the most memory that was resident, input included, over the bytes "
        f"of the input. The dashed line is what is aimed at, {aim}."
    )
    return _by_size(
        found,
        title="Peak memory, as a multiple of the input",
        told=told,
        aim=aim,
        names=("token", "block", "batched"),
        value=peak,
    )


def efficiency(found: Mapping[str, Any]) -> str:
    """Return the block efficiency against sigma, a panel for each K, at the largest L."""
    length = max(row["length"] for row in found["rows"])
    panels: dict[int, dict[str, list[_Point]]] = {}
    for row in sorted(found["rows"], key=lambda row: (int(row["drafts"]), float(row["sigma"]))):
        if row["length"] == length:
            point = row["sigma"], row["block_efficiency"], row
            panels.setdefault(row["drafts"], {}).setdefault(row["name"], []).append(point)
    heights = [_LETTER * (max(len(lines), 11) + 4) for lines in panels.values()]

    def draw(figure: Figure) -> None:
        drawn = figure.subplots(
            len(panels), squeeze=False, sharex=True, gridspec_kw={"height_ratios": heights}
        )
        for axes, (drafts, lines) in zip(drawn[:, 0], panels.items(), strict=True):
            for name, points in lines.items():
                _line(axes, name, points)
                for sigma, emitted, row in points:
                    own = row["standard_error"]
                    ends = emitted - own, emitted + own
                    axes.plot((sigma, sigma), ends, color=_stroke(name)["color"], linewidth=1)
            axes.set_yscale("log")
            _tick_tidily(axes, [1, length + 1])
            axes.set_ylabel(f"{drafts} draft{'s' if drafts > 1 else ''}")
            _label(axes, lines)
        axes.set_xlabel("sigma: how far the draft's logits are from the target's")

    told = (
        f"Tokens per iteration at L = {length}, against the noise of the draft. A panel for each "
        f"number of drafts; upright bars are one standard error."
    )
    title = f"Tokens per iteration, {length} drafted"
    return _drawn(draw, title=title, told=told, height=sum(heights) + 60, left=60, right=265)


def speed(found: Mapping[str, Any]) -> str:
    """Return tokens per second against sigma, each verifier at its best K and L."""
    sigmas = sorted({row["sigma"] for row in found["rows"]})
    best: dict[str, dict[float, Mapping[str, Any]]] = {}
    fastest: dict[float, Mapping[str, Any]] = {}
    for row in sorted(found["rows"], key=lambda row: float(row["tokens_per_second"])):
        best.setdefault(row["name"], {})[row["sigma"]] = fastest[row["sigma"]] = row
    lines = {
        name: [(n, own[sigma]["tokens_per_second"], own[sigma]) for n, sigma in enumerate(sigmas)]
        for name, own in best.items()
    }
    winners = [fastest[sigma] for sigma in sigmas]
    costs = found["costs"]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for name, points in lines.items():
            _line(axes, name, points)
        for n, row in enumerate(winners):
            color = _stroke(row["name"])["color"]
            axes.plot(
                n, row["tokens_per_second"], "o", markersize=11, color=color, fillstyle="none"
            )
        axes.set_yscale("log")
        _tick_tidily(axes, [point[1] for points in lines.values() for point in points])
        ticks = [
            f"{sigma:g} {_words(row['name'])} K={row['drafts']} L={row['length']}"
            for sigma, row in zip(sigmas, winners, strict=True)
        ]
        axes.set_xticks(
            range(len(sigmas)), [tick.replace(" ", "\n") for tick in ticks], fontsize=9.5
        )
        axes.set_ylabel("tokens per second")
        axes.set_xlabel("sigma, and the verifier to use there")
        _label(axes, lines)

    told = (
        f"Tokens per second of a batch, each verifier at its best number of drafts and length, "
        f"when a pass of the target costs {1e3 * costs['target_pass']:g} ms, one of the draft "
        f"{1e3 * costs['draft_pass']:g} ms, and a verification what it took on this machine: "
        f"{found['machine']['cpu']}. Rings mark the fastest."
    )
    return _drawn(
        draw,
        title="Tokens per second",
        told=told,
        height=_LETTER * max(len(lines) + 14, 24),
        left=60,
        right=265,
        bottom=140,
    )


def bandwidth(found: Mapping[str, Any]) -> str:
    """Return the fraction of the bandwidth that is used, against B, at the largest L."""
    length = max(row["size"]["length"] for row in found["rows"])
    rows = [row for row in found["rows"] if row["size"]["length"] == length]
    dtypes = sorted({row["dtype"] for row in rows})
    vocabularies = sorted({row["size"]["vocabulary"] for row in rows})
    names = list(dict.fromkeys(row["name"] for row in rows))
    requests = sorted({row["size"]["requests"] for row in rows})

    def draw(figure: Figure) -> None:
        drawn = figure.subplots(
            len(vocabularies), len(dtypes), squeeze=False, sharex=True, sharey=True
        )
        for (n, vocabulary), (m, dtype) in product(enumerate(vocabularies), enumerate(dtypes)):
            axes = drawn[n, m]
            for name in names:
                points = [
                    (requests.index(row["size"]["requests"]), 100 * row["fraction"]["median"], row)
                    for row in rows
                    if row["size"]["vocabulary"] == vocabulary
                    and (row["dtype"], row["name"]) == (dtype, name)
                ]
                _line(axes, name, points)
            axes.set_ylim(bottom=0)
            axes.set_xticks(range(len(requests)), [str(count) for count in requests])
            axes.set_title(f"{dtype}, V = {vocabulary:,}", fontsize=11, color=_INKS["muted"])
        for axes in drawn[:, 0]:
            axes.set_ylabel("% of bandwidth")
        for axes in drawn[-1]:
            axes.set_xlabel("requests")
        _legend(figure, names)

    told = (
        f"The bytes of the logits, read once, over the time of a call, as a fraction of what a "
        f"large copy reads and writes on {found['device']['name']}; L = {length}."
    )
    return _drawn(
        draw,
        title="How much of the bandwidth is used",
        told=told,
        height=190 * len(vocabularies) + 110,
        left=60,
        right=10,
        top=60,
        bottom=55 + _LETTER * (1 + len(names) // 4),
        apart=0.35,
    )


# --- what several drawings have ----------------------------------------------------------

_Point = tuple[float, float, Mapping[str, Any]]


def _by_size(
    found: Mapping[str, Any],
    *,
    title: str,
    told: str,
    aim: float,
    names: Sequence[str],
    value: Callable[[Mapping[str, Any]], Mapping[str, float] | None],
) -> str:
    """Return a drawing of a panel for each way in, with a row for every size."""
    sizes = list(dict.fromkeys(_told_size(row["size"]) for row in found["rows"]))
    ways = list(dict.fromkeys(row["way"] for row in found["rows"]))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(ways), squeeze=False, sharey=True, sharex=True)[0]
        seen: list[float] = []
        for axes, way in zip(panels, ways, strict=True):
            axes.axvline(1, color=_INKS["line"], linewidth=1, zorder=0)
            axes.axvline(aim, color=_INKS["ink"], linewidth=1, linestyle=(0, (4, 3)), zorder=0)
            for row in found["rows"]:
                spread = value(row)
                if row["way"] != way or row["name"] not in names or spread is None:
                    continue
                # Neighbours of one size are drawn one above the other.
                place = names.index(row["name"]) - (len(names) - 1) / 2
                y = sizes.index(_told_size(row["size"])) + 0.7 * place / len(names)
                color, marker = (_stroke(row["name"])[part] for part in ("color", "marker"))
                axes.plot((spread["low"], spread["high"]), (y, y), color=color, linewidth=1)
                axes.plot(spread["median"], y, marker, color=color, markersize=4.5)
                seen += spread.values()
            axes.set_title(_WAYS[way], fontsize=11, color=_INKS["muted"])
            axes.grid(axis="y", color=_INKS["line"], linewidth=0.5)
        axes.set_xscale("log")
        _tick_tidily(axes, [1, aim, *seen], upright=False)
        axes.set_yticks(range(len(sizes)), sizes)
        axes.set_ylim(len(sizes) - 0.5, -0.5)
        _legend(figure, names)

    height = 32 * len(sizes) + 115
    return _drawn(
        draw, title=title, told=told, height=height, left=148, right=12, bottom=55, top=60
    )


def _line(axes: Axes, name: str, points: Sequence[_Point]) -> None:
    xs, ys = ([point[n] for point in points] for n in range(2))
    axes.plot(xs, ys, linewidth=1.5, markersize=3.5, **_stroke(name))


def _label(axes: Axes, lines: Mapping[str, Sequence[_Point]]) -> None:
    """Write every line's name beside its end, none over another."""
    height = axes.get_window_extent().height / axes.figure.dpi * UNIT
    ends = {name: points[-1][:2] for name, points in lines.items()}
    places = {
        name: float(axes.transAxes.inverted().transform(axes.transData.transform(end))[1])
        for name, end in ends.items()
    }
    for name, place in drawing.apart(places, gap=_LETTER / height, high=1).items():
        axes.annotate(
            _words(name),
            ends[name],
            (1.06, place),
            textcoords="axes fraction",
            color=_stroke(name)["color"],
            va="center",
            fontsize=11,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": _INKS["line"],
                "linewidth": 0.8,
                "shrinkA": 1,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )


def _legend(figure: Figure, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=_words(name), **_stroke(name)) for name in names]
    figure.legend(handles=handles, loc="lower center", ncols=min(len(names), 4), frameon=False)


def _tick_tidily(axes: Axes, seen: Sequence[float], *, upright: bool = True) -> None:
    """Tick a logarithmic axis at numbers that people count in, as many as there is room for."""
    low, high = min(seen) / 1.15, max(seen) * 1.15
    decades = [10.0**power for power in range(-9, 10)]
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [step * ten for ten in decades for step in steps if low <= step * ten <= high]
        if len(ticks) <= _MOST_TICKS:
            break
    axis = axes.yaxis if upright else axes.xaxis
    (axes.set_ylim if upright else axes.set_xlim)(low, high)
    axis.set_ticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.minorticks_off()


def _stroke(name: str) -> dict[str, Any]:
    return _LOOKS.get(name, _look("ink"))


def _words(name: str) -> str:
    return name.replace("_without_", ", without_").replace("_", " ")


def _told_size(size: Mapping[str, int]) -> str:
    return f"B={size['requests']} L={size['length']} V={size['vocabulary']:,}"


def _drawn(
    draw: Callable[[Figure], None],
    *,
    title: str,
    told: str,
    height: float,
    left: float,
    right: float,
    bottom: float = 45,
    top: float = 40,
    apart: float = 0.15,
) -> str:
    """Return a drawing with its title, paper and colours of its own; edges are in units."""

    def titled(figure: Figure) -> None:
        figure.text(10 / _WIDTH, 1 - 12 / height, title, va="top", fontsize=14, fontweight="bold")
        draw(figure)

    root = drawing.drawn(
        titled,
        inks=_INKS,
        width=_WIDTH,
        height=height,
        letters=12,
        left=left / _WIDTH,
        right=1 - right / _WIDTH,
        bottom=bottom / height,
        top=1 - top / height,
        hspace=apart,
        wspace=0.12,
    )
    root.attrib |= {"width": str(_WIDTH), "height": f"{height:g}"}
    insert(root, "rect", "", width="100%", height="100%", style="fill: var(--paper)")
    insert(root, "style", _style())
    insert(root, "desc", told)
    insert(root, "title", title)
    whole = ElementTree.tostring(root, encoding="unicode")
    return re.sub(r"font: ([\d. a-z]*px)[^;\"]*", r"font: \1 system-ui, sans-serif", whole) + "\n"


def _style() -> str:
    light, dark = (
        "; ".join(f"--{name}: {own[n]}" for name, own in {"paper": _PAPER, **_COLORS}.items())
        for n in range(2)
    )
    return f":root {{ {light} }} @media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
