from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from math import inf, nan
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from draftproof.conformance.report.drawing import ReportUnavailable
from draftproof.conformance.report.plots import Plot, plots
from draftproof.reference.extras import installation

Make = Any

SVG = "{http://www.w3.org/2000/svg}"


def drawn(document: dict[str, Any], name: str = "a1") -> tuple[Plot, ...]:
    return plots(document["predicate"]["draftproof"], name=name)


def parsed(plot: Plot) -> Element:
    assert plot.svg is not None, plot.told
    return ElementTree.fromstring(plot.svg)


def points(plot: Plot, color: str) -> int:
    """Return how many points have a colour of the page."""
    marks = (each for each in parsed(plot).iter(f"{SVG}use") if each.get("x") is not None)
    return sum(f"fill: var(--{color})" in (mark.get("style") or "") for mark in marks)


def attributes(root: Element, name: str) -> Iterator[str]:
    yield from (each.attrib[name] for each in root.iter() if name in each.attrib)


def test_a_text_beyond_what_is_allowed_is_marked(
    conforming: dict[str, Any], failing: dict[str, Any]
) -> None:
    # Every text is a point twice: on the diagonal, and as a difference.
    law, lengths, _ = drawn(conforming)
    assert (points(law, "accent"), points(law, "bad")) == (4, 0)
    assert "0 of 2 texts." in law.told
    assert (points(lengths, "accent"), points(lengths, "bad")) == (4, 0)
    law, _, _ = drawn(failing)
    assert (points(law, "accent"), points(law, "bad")) == (0, 4)
    assert "on case generic.v2.l1" in law.told
    assert "2 of 2 texts." in law.told


def test_a_length_above_the_optimum_is_marked(certificate: Make, decision: Make) -> None:
    wrong = decision("length.bounded", verdict="fail", lengths={"observed": 2.0, "optimum": 1.0})
    _, lengths, _ = drawn(certificate(wrong))
    assert points(lengths, "bad") == 2
    assert "more than the allowed distance: 1." in lengths.told


def test_infinite_evidence_leaves_the_drawing_at_the_top(failing: dict[str, Any]) -> None:
    _, _, evidence = drawn(failing)
    text = "".join(parsed(evidence).itertext())
    assert "failed: law.support." in evidence.told
    # log(1e11), as the test's share says.
    assert "at 25.3," in evidence.told
    assert "log evidence" in text


def test_what_is_not_there_is_told_and_not_drawn(certificate: Make, decision: Make) -> None:
    for plot, said in zip(
        drawn(certificate(decision("law.prefix"))),
        ("no distribution decided", "no length was measured", "no requirement was sampled"),
        strict=True,
    ):
        assert plot.svg is None
        assert said in plot.told


def test_a_drawing_is_read_aloud_and_takes_the_colours_of_its_page(
    conforming: dict[str, Any],
) -> None:
    for plot in drawn(conforming):
        root = parsed(plot)
        title, told = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert title is not None
        assert told is not None
        assert (title.text, told.text) == (plot.title, plot.told)
        assert root.get("role") == "img"
        assert root.get("aria-labelledby") == f"{title.get('id')} {told.get('id')}"
        assert "width" not in root.attrib
        # Letters are letters, of the page's font.
        assert next(root.iter(f"{SVG}text"), None) is not None
        styles = " ".join(attributes(root, "style"))
        assert "var(--ink)" in styles or "var(--muted)" in styles
        assert not re.search(r"#[0-9a-f]{3,6}\b|font-family|font:", styles)
        assert root.find(f".//{SVG}style") is None


def test_the_drawings_of_a_page_share_no_id(conforming: dict[str, Any]) -> None:
    roots = [parsed(plot) for name in ("a1", "a2") for plot in drawn(conforming, name)]
    ids = [each for root in roots for each in attributes(root, "id")]
    assert len(ids) == len(set(ids))
    for root in roots:
        own = set(attributes(root, "id"))
        used = re.findall(r"url\(#(.*?)\)", " ".join(attributes(root, "clip-path")))
        used += [h[1:] for h in attributes(root, "{http://www.w3.org/1999/xlink}href")]
        assert used
        assert set(used) <= own


def test_the_same_figures_give_the_same_bytes(conforming: dict[str, Any]) -> None:
    assert drawn(conforming) == drawn(conforming)


@pytest.mark.parametrize("odd", [nan, inf, 1e308, 5e-324, 0.0])
def test_odd_figures_are_left_out_or_drawn(
    certificate: Make, decision: Make, sampled: Make, odd: float
) -> None:
    law = [{"text": [0], "observed": 0.5, "expected": min(odd, 1.0)}]
    walk = [[1, odd], [10**30, -odd], [10**400, odd]]
    document = certificate(
        decision("law.lossless", law=law, allowed=odd),
        decision("length.bounded", lengths={"observed": odd, "optimum": odd}),
        decision("random.calls", sampled=sampled(path=walk, false_alarm=min(odd, 1.0))),
    )
    for plot in drawn(document):
        assert plot.svg is None or "NaN" not in plot.svg


def test_of_many_texts_the_most_wrong_are_drawn(certificate: Make, decision: Make) -> None:
    law = [{"text": [n], "observed": n * 1e-6, "expected": 0.0} for n in range(1000)]
    plot, _, _ = drawn(certificate(decision("law.lossless", law=law, allowed=1e-8)))
    assert points(plot, "bad") == 2 * 400
    assert "The 400 that differ most are shown." in plot.told
    assert "999 of 1000 texts." in plot.told


def test_what_was_counted_is_not_measured_by_rounding(
    certificate: Make, decision: Make, sampled: Make
) -> None:
    law = [{"text": [n], "observed": 0.4 + n / 5, "expected": 0.5} for n in range(2)]
    counted = decision("law.lossless", law=law, lane="sample", sampled=sampled(), allowed=1e-6)
    plot, _, _ = drawn(certificate(counted))
    assert points(plot, "bad") == 0
    assert "Counts also vary by chance; the true distance is at most 2.00e-02." in plot.told
    assert "rounding" not in plot.told


def test_names_are_no_mathematics(certificate: Make, decision: Make) -> None:
    named = decision("law.lossless", law=[{"text": [], "observed": 1.0, "expected": 1.0}])
    named["worst"]["case"] = "$x_{"
    plot, _, _ = drawn(certificate(named))
    assert "$x_{" in plot.told


def test_without_matplotlib_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, conforming: dict[str, Any]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ReportUnavailable, match=f"matplotlib: {re.escape(installation('report'))}"):
        drawn(conforming)
