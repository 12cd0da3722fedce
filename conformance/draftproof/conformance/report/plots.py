"""Plots of a certificate's findings, as inline SVG.

Lines and letters take their colours from variables of the page's style, so that one drawing serves
a light page and a dark one. Text stays text: a reader can search it and have it read aloud, and it
takes the page's font. The same figures give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf, isfinite, log, log10
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from draftproof.conformance.report import drawing, words
from draftproof.conformance.report.drawing import SVG, insert, raised
from draftproof.conformance.requirements.finding import FAIL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INKS = drawing.inks("ink", "muted", "line", "accent", "bad")
_LINE, _ACCENT, _BAD = (_INKS[name] for name in ("line", "accent", "bad"))

# As wide as a phone, so that letters keep their size on it.
_WIDTH = 342

# More points than this are a megabyte, and no clearer.
_MOST_TEXTS = 400

# Evidence above this multiple of the threshold is only pointed at.
_HEADROOM = 1.25

# Documents may hold NaN, and numbers that no margin can be added to.
_LARGEST = 1e100
_SMALLEST = 1e-100

# Decades nearer than these many are written over each other.
_APART = 3

# From the first and the last look to the edge, as a factor.
_MARGIN = 1.2

# From this range on, only powers of ten are ticked.
_MANY = 100


@dataclass(frozen=True)
class Plot:
    """A drawing and its caption; without a drawing, the reason for its absence."""

    title: str
    told: str
    svg: str | None = None


def plots(found: Mapping[str, Any], *, name: str) -> tuple[Plot, ...]:
    """Return the plots of a certificate's `draftproof` part: distribution, lengths, evidence.

    `name` distinguishes the drawings of one page. Raises `ReportUnavailable` without matplotlib.
    """
    return (
        _law(found, f"{name}-law"),
        _lengths(found, f"{name}-lengths"),
        _evidence(found, f"{name}-evidence"),
    )


# --- the distribution of the text --------------------------------------------------------


def _law(found: Mapping[str, Any], name: str) -> Plot:
    title = "Distribution of the text, observed and exact"
    findings = [f for f in _findings(found, "law.lossless") if f["law"] is not None]
    if not findings:
        return Plot(title, "No data: no distribution decided law.lossless.")
    (finding, *_) = findings
    texts = sorted(finding["law"], key=_gap, reverse=True)
    # What is sampled differs by chance, too. And no two laws are further apart than 1.
    allowed = 0.0 if finding["sampled"] else min(finding["allowed"] or 0.0, 1.0)
    beyond = sum(allowed > 0 and _gap(text) > allowed for text in texts)
    shown = [t for t in texts if _can_draw(t["observed"], t["expected"])][:_MOST_TEXTS]
    if not shown:
        return Plot(title, "The distribution of the text has no values to draw.")
    x = [text["expected"] for text in shown]
    y = [text["observed"] for text in shown]
    gaps = [after - before for before, after in zip(x, y, strict=True)]
    colors = [_BAD if allowed and abs(gap) > allowed else _ACCENT for gap in gaps]

    def draw(figure: Figure) -> None:
        lower = _below_diagonal(figure, x, y, colors)
        lower.axhspan(-allowed, allowed, color=_LINE, alpha=0.5, linewidth=0, zorder=0)
        lower.axhline(0, color=_LINE, linewidth=0.8, zorder=0)
        lower.scatter(x, gaps, s=12, c=colors, linewidths=0)
        if allowed:
            _scale_decades(lower, allowed, max(map(abs, gaps)))
        lower.set_ylabel("difference")
        lower.set_xlabel("probability under the target")

    told = (
        f"Each point is a text on case {finding['case']}, the worst case of law.lossless, observed "
        f"by the {finding['lane']} lane. Texts on the diagonal are as probable as under the target."
    )
    if allowed:
        told += (
            f" Outside the band, the largest difference that rounding explains "
            f"({words.figure(allowed)}): {beyond} of {len(texts)} texts."
        )
    if finding["sampled"]:
        bound = words.figure(finding["sampled"]["bound"])
        told += f" Counts also vary by chance; the true distance is at most {bound}."
    if len(shown) < len(texts):
        told += f" The {len(shown)} that differ most are shown."
    return Plot(title, told, _drawn(draw, name=name, title=title, told=told, height=316.8))


def _gap(text: Mapping[str, Any]) -> float:
    return abs(float(text["observed"] - text["expected"]))


# --- lengths -----------------------------------------------------------------------------


def _lengths(found: Mapping[str, Any], name: str) -> Plot:
    title = "E[accepted length] against the optimum"
    known = [f for f in _findings(found, "length.bounded") if f["lengths"] is not None]
    cases = [f for f in known if _can_draw(*f["lengths"].values(), _share(f["lengths"]))]
    if not cases:
        return Plot(title, "No data: no length was measured on a case with a known optimum.")
    x = [finding["lengths"]["optimum"] for finding in cases]
    y = [finding["lengths"]["observed"] for finding in cases]
    colors = [_BAD if finding["verdict"] == FAIL else _ACCENT for finding in cases]
    part = [100 * _share(finding["lengths"]) for finding in cases]

    def draw(figure: Figure) -> None:
        lower = _below_diagonal(figure, x, y, colors)
        lower.axhline(100, color=_LINE, zorder=0)
        lower.scatter(x, part, s=12, c=colors, linewidths=0)
        lowest, highest = min(part), max(*part, 100.0)
        room = max(highest - lowest, 1) / 8
        lower.set_ylim(lowest - room, highest + room)
        lower.set_ylabel("% of optimum")
        lower.set_xlabel("optimum, in tokens")

    above = colors.count(_BAD)
    told = (
        f"Each point is one of {len(cases)} cases. On the diagonal, a verifier reaches the "
        f"stateless optimum; no lossless verifier is above it. "
        f"Cases above it by more than the allowed distance: {above}."
    )
    return Plot(title, told, _drawn(draw, name=name, title=title, told=told, height=316.8))


def _share(lengths: Mapping[str, float]) -> float:
    """Return the achieved share of the optimum: 1 if the optimum is 0."""
    return lengths["observed"] / lengths["optimum"] if lengths["optimum"] else 1.0


# --- evidence ----------------------------------------------------------------------------


def _evidence(found: Mapping[str, Any], name: str) -> Plot:
    title = "Evidence against each sampled requirement"
    sampled = [d for d in found["requirements"] if d["worst"]["sampled"] is not None]
    if not sampled:
        return Plot(title, "No data: no requirement was sampled.")
    threshold = max(_threshold(decision["worst"]["sampled"]) for decision in sampled)
    if not isfinite(threshold):
        return Plot(title, "No threshold: the test allows no false alarms.")
    top = _HEADROOM * max(threshold, 1)
    walks = [(decision, list(_walk(decision["worst"]["sampled"], top))) for decision in sampled]
    lowest = min((won for _, walk in walks for _, won in walk), default=0.0)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.axhline(threshold, color=_BAD, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        for decision, walk in walks:
            if not walk:
                continue
            failed = decision["worst"]["verdict"] == FAIL
            color = _BAD if failed else _ACCENT
            emissions, won = zip(*walk, strict=True)
            width = 1.5 if failed else 0.8
            axes.plot(emissions, won, color=color, linewidth=width, marker="o", markersize=2.5)
            if won[-1] == top:
                axes.plot(emissions[-1:], won[-1:], marker="^", color=color, clip_on=False)
        axes.set_ylim(min(lowest, 0) - 0.05 * top, top)
        beside = axes.get_yaxis_transform()
        axes.text(0.99, threshold, "fails", transform=beside, ha="right", va="bottom", color=_BAD)
        if looks := [emissions for _, walk in walks for emissions, _ in walk]:
            _tick_emissions(axes, looks)
        axes.yaxis.set_label_coords(-0.12, 0.5)
        axes.set_xlabel("emissions")
        axes.set_ylabel("log evidence")

    failed = [d["id"] for d in sampled if d["worst"]["verdict"] == FAIL]
    told = (
        f"Each line is the worst case of a requirement, with a point at every look. A requirement "
        f"fails at {threshold:.1f}, the logarithm of one over its share of false alarms; failed: "
        f"{', '.join(failed) or 'none'}. A triangle marks evidence beyond the plot."
    )
    return Plot(title, told, _drawn(draw, name=name, title=title, told=told, height=230.4))


def _threshold(sampled: Mapping[str, Any]) -> float:
    return -log(sampled["false_alarm"]) if sampled["false_alarm"] > 0 else inf


def _walk(sampled: Mapping[str, Any], top: float) -> Iterator[tuple[float, float]]:
    """Yield the evidence at every look, up to the first point outside the drawing."""
    for emissions, written in sampled["path"]:
        # Null is infinite.
        won = inf if written is None else written
        if _can_draw(emissions, min(won, top)):
            yield float(emissions), min(won, top)
            if won >= top:
                return


# --- drawing -----------------------------------------------------------------------------


def _findings(found: Mapping[str, Any], requirement: str) -> list[Mapping[str, Any]]:
    """Return the findings of a requirement, the worst one first."""
    findings: list[Mapping[str, Any]] = []
    for decision in found["requirements"]:
        if decision["id"] == requirement:
            worst = decision["worst"]
            others = (f for f in words.cases_of(decision) if f["case"] != worst["case"])
            findings += [worst, *others]
    return findings


def _can_draw(*values: float) -> bool:
    """Return True if all values are numbers of a size that an axis can have."""
    return all(abs(value) < _LARGEST for value in values)


def _below_diagonal(
    figure: Figure, x: Sequence[float], y: Sequence[float], colors: Sequence[str]
) -> Axes:
    """Draw the observed values; return the axes below them, with the same x, for the rest."""
    layout = {"height_ratios": (3, 2), "hspace": 0.08}
    stacked: tuple[Axes, Axes] = figure.subplots(2, sharex=True, gridspec_kw=layout)
    upper, lower = stacked
    upper.tick_params(axis="x", length=0)
    for axes in (upper, lower):
        axes.yaxis.set_label_coords(-0.17, 0.5)
    end = max(*x, *y, 1e-9) * 1.05
    upper.plot([0, end], [0, end], color=_LINE, zorder=0)
    upper.scatter(x, y, s=12, c=colors, linewidths=0)
    upper.set_ylabel("observed")
    return lower


def _scale_decades(axes: Axes, allowed: float, largest: float) -> None:
    """Scale an axis to show both the allowed and the largest distance, near 0 and far from it."""
    axes.set_yscale("symlog", linthresh=max(allowed / 100, _SMALLEST))
    top = 3 * max(allowed, largest)
    axes.set_ylim(-top, top)
    powers = sorted({floor(log10(size)) for size in (allowed, largest) if size > 0})
    if len(powers) > 1 and powers[1] - powers[0] < _APART:
        del powers[0]
    ticks = {0.0: "0"}
    for power in powers:
        ticks |= {10.0**power: raised(power), -(10.0**power): f"−{raised(power)}"}
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.minorticks_off()


def _tick_emissions(axes: Axes, emissions: Sequence[float]) -> None:
    """Tick round numbers of emissions, fewer where there are many decades."""
    axes.set_xscale("log")
    low, high = min(emissions) / _MARGIN, max(emissions) * _MARGIN
    steps = (1,) if high / low > _MANY else (1, 2, 5)
    powers = range(floor(log10(high)) + 1)
    numbers = (step * 10.0**power for power in powers for step in steps)
    ticks = [number for number in numbers if low <= number <= high] or [max(emissions)]
    axes.set_xticks(ticks, [f"{number:,.0f}" for number in ticks])
    axes.set_xlim(low, high)
    axes.minorticks_off()


def _drawn(
    draw: Callable[[Figure], None], *, name: str, title: str, told: str, height: float
) -> str:
    """Return a drawing for a page: with unique ids, and a text to be read aloud."""
    # A layout that measures its letters takes twice the time, and they are not the page's.
    bottom, top = 36 / height, 1 - 7.2 / height
    edges = {"left": 0.17, "right": 0.98, "bottom": bottom, "top": top}
    root = drawing.drawn(draw, inks=_INKS, width=_WIDTH, height=height, letters=11, **edges)
    for parent in list(root.iter()):
        # A style would be the whole page's.
        for style in parent.findall(f"{{{SVG}}}style"):
            parent.remove(style)
        for key, value in parent.attrib.items():
            parent.set(key, _adapted(key, value, name))
    for size in ("width", "height"):
        del root.attrib[size]
    root.set("aria-labelledby", f"{name}-title {name}-told")
    insert(root, "desc", told, id=f"{name}-told")
    insert(root, "title", title, id=f"{name}-title")
    return ElementTree.tostring(root, encoding="unicode")


def _adapted(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key.endswith("href"):
        return value.replace("#", f"#{name}-")
    value = value.replace("url(#", f"url(#{name}-")
    # The size is the drawing's, the font is the page's.
    value = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", value)
    return re.sub(r"font-family: [^;]*;?", "", value)
