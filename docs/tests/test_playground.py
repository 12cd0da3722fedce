"""The playground: what it computes is what the reference computes, and anybody can work it.

The browser loads Python once, in one long test: that takes most of the time.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy
import pytest
from building import playground as building
from building.pages import HOUSE
from playground import arrays
from playground.playground import computation, law_on

from draftproof.reference.drafting import draft_law
from draftproof.reference.errors import InvalidInput
from draftproof.reference.ledger.instances import seeded
from draftproof.reference.model import instance_from_json, instance_to_json
from draftproof.reference.optimum import stateful, stateless
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import (
    ALGORITHMS,
    emission_law,
    require_fit,
    verification_law,
)

Document = dict[str, Any]

EXAMPLES: list[Document] = json.loads(
    (HOUSE / "docs/playground/examples.json").read_text(encoding="utf-8")
)
OURS = {example["title"]: example["instance"] for example in EXAMPLES}
OURS["The story"] = building.story_instance()
MOTIVATING, TWO_DRAFTS, BY_CONTEXT = (
    OURS[title] for title in ("Motivating example", "Two drafts", "Rows by context")
)
LARGEST: Document = {
    "vocabulary": 4,
    "length": 3,
    "drafts": 3,
    "scheme": "iid",
    "target": ["1/12", "1/6", "1/4", "1/2"],
    "draft": ["1/2", "1/4", "1/6", "1/12"],
}

THREE = ["1/6", "1/3", "1/2"]


def lengths(document: Document) -> dict[str, str]:
    """What the reference says of every algorithm that fits, and of both optima."""
    instance = instance_from_json(document)
    found = {"stateless": stateless(instance).value, "stateful": stateful(instance).value}
    for name, algorithm in ALGORITHMS.items():
        try:
            require_fit(algorithm, instance)
        except InvalidInput:
            continue
        found[name] = expected_accepted(emission_law(algorithm, instance))
    return {name: str(value) for name, value in found.items()}


def told(document: Document, *, willing: bool = True, milliseconds: int = 60_000) -> Document:
    """What the page is told of an instance, all at once."""
    return json.loads(computation(json.dumps(document))(milliseconds, willing))  # type: ignore[no-any-return]


# --- what is computed -----------------------------------------------------------------------------


@pytest.mark.parametrize("document", OURS.values(), ids=OURS)
def test_the_page_is_told_what_the_reference_computes(document: Document) -> None:
    answer = told(document)
    results = {result["name"]: result for result in answer["results"] if "name" in result}
    values = lengths(document)
    assert answer["finished"]
    assert {name: result["expected"][0] for name, result in results.items()} == values
    for name, (share, _) in answer["shares"].items():
        best = rational(values["stateful" if ALGORITHMS[name].stateful else "stateless"])
        assert rational(share) * best == rational(values[name])
        assert share == "1" or best != 0
    assert set(answer["shares"]) == set(values) - {"stateless", "stateful"}
    instance = instance_from_json(document)
    for name, result in results.items():
        if result["kind"] == "optimum":
            continue
        law = emission_law(ALGORITHMS[name], instance).map(lambda e: (e.accepted, e.next_token))
        shown = {(tuple(kept), token): p for kept, token, (p, _) in result["law"]}
        assert shown == {outcome: str(weight) for outcome, weight in law.items()}
        assert result["lossless"]
        assert all(emitted == wanted for _, emitted, (wanted, _) in result["texts"])


def test_the_examples_are_what_they_are_said_to_be() -> None:
    known = {title: lengths(document) for title, document in OURS.items()}
    assert known["Motivating example"]["block"] == "11/9"
    assert known["Motivating example"]["token"] == "10/9"
    assert len(set(known["Two drafts"].values())) > 8
    three = told(OURS["Three drafts"])
    assert three["shares"]
    assert "1" not in {exact for exact, _ in three["shares"].values()}
    equal = {name for name, value in known["p = q"].items() if value != "2"}
    assert equal == {"target_first"}
    assert set(known["Disjoint"].values()) == {"0"}
    ratios = [eval(p) / eval(q) for p, q in zip(*_rows("Ties"), strict=True)]
    assert ratios[0] == ratios[1]
    zeros = _rows("Zeros")
    assert any(p == "0" != q for p, q in zip(*zeros, strict=True))
    assert any(q == "0" != p for p, q in zip(*zeros, strict=True))
    target, draft = _rows("Rows by context")
    assert target["0"] == draft["0"]
    assert target["1"] != draft["1"]


def _rows(title: str) -> tuple[Any, Any]:
    return OURS[title]["target"], OURS[title]["draft"]


def test_what_takes_long_is_begun_only_for_the_willing() -> None:
    answer = told(LARGEST, willing=False, milliseconds=300)
    assert set(answer["waiting"]) == {"stateless", "stateful", "spectr_gbv"}
    assert not set(answer["waiting"]) & set(answer["running"])
    assert not answer["finished"]
    assert not answer["idle"]


def test_work_goes_on_where_it_stopped_and_every_result_comes_once() -> None:
    advance, names, parts = computation(json.dumps(TWO_DRAFTS)), [], 0
    while True:
        answer = json.loads(advance(5, False))
        names += [result.get("name", "instance") for result in answer["results"]]
        assert all(0 <= part < 1 for part in answer["running"].values())
        parts += 1
        if answer["finished"]:
            break
    assert parts > 1
    assert sorted(names) == sorted(["instance", *lengths(TWO_DRAFTS)])


def test_the_number_of_runs_is_estimated_to_a_factor_of_two() -> None:
    document = {**MOTIVATING, "length": 3, "drafts": 3}
    advance = computation(json.dumps(document))
    while True:
        answer = json.loads(advance(1, False))
        if part := answer["running"].get("scored_multipath_block"):
            # 2742 runs, as enumerating them shows; an estimate is first made after 200.
            assert 200 / 2742 / 2 < part < 1
            return
        assert not answer["finished"]


def test_a_law_on_given_drafts_is_the_references() -> None:
    instance = instance_from_json(TWO_DRAFTS)
    drafts = next(iter(draft_law(instance)))
    answer = json.loads(law_on(json.dumps(TWO_DRAFTS), "traversal", json.dumps(drafts)))
    law = verification_law(ALGORITHMS["traversal"], instance, drafts)
    assert {(tuple(kept), token, path): p for kept, token, path, (p, _) in answer["law"]} == {
        (e.accepted, e.next_token, e.path): str(weight) for e, weight in law.items()
    }


@pytest.mark.parametrize(
    ("change", "model", "message"),
    [
        ({"target": ["1/2", "1/3"]}, "target", "must sum to 1, it sums to 5/6. The weights of a"),
        ({"draft": ["half", "1/2"]}, "draft", "got the string 'half'. Write whole numbers, dec"),
        ({"draft": ["1"]}, "draft", "must have 2 entries, it has 1."),
        ({"drafts": 3, "scheme": "hub"}, None, "'hub' draws pairs"),
    ],
)
def test_what_the_reference_refuses_is_told_in_words(
    change: Document, model: str | None, message: str
) -> None:
    error = told({**MOTIVATING, **change})["error"]
    assert error["model"] == model
    assert message in error["message"]
    names = {each.__name__ for each in InvalidInput.__subclasses__()}
    assert len(names) > 3
    assert not any(name in error["message"] for name in names)


def test_drafts_that_cannot_be_are_refused() -> None:
    answer = json.loads(law_on(json.dumps(OURS["Disjoint"]), "block", "[[0, 0]]"))
    assert "Path (0, 0) has probability 0 under the draft" in answer["error"]["message"]


_VECTOR, _MATRIX = [3, -1, 2], [[1, 2, 0], [0, -4, 5], [6, 0, 8]]
_ASKED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "arithmetic": lambda np, x, a: -x + x * 2 - 3 * x / 4 + 1,
    "rows": lambda np, x, a: a * x - x / (a + 7) + a,
    "comparison": lambda np, x, a: (x < 2) & (x <= 3),
    "equality": lambda np, x, a: x == 2,
    "absolute": lambda np, x, a: abs(x),
    "dot": lambda np, x, a: a @ x + x @ x,
    "transposed": lambda np, x, a: (a.T * x).T,
    "sums": lambda np, x, a: a[1:].sum(axis=0) * x[:2].sum(),
    "picked": lambda np, x, a: a[[2, 0], :2] + x[np.array([0, 1])],
    "masked": lambda np, x, a: x[x < 3],
    "column": lambda np, x, a: a[1:, 1] * a[2, 0] + a[2, :2],
    "copied": lambda np, x, a: _changed(a.copy(), x) + 0 * a,
    "stacked": lambda np, x, a: np.concatenate([np.stack([x, 2 * x, x], axis=1), a[:1]]),
    "outer": lambda np, x, a: np.outer(x, x[1:]),
    "chosen": lambda np, x, a: np.where(x < 0, x, np.maximum(x, 2.5)),
    "places": lambda np, x, a: np.flatnonzero(0 * x < x) + np.arange(2),
    "extremes": lambda np, x, a: x * int(np.argmax(x)) + int(np.argmin(x)),
}


def _changed(a: Any, x: Any) -> Any:
    a[[0, 2]] = a[[2, 0]]
    a[1:, 1:] -= 2
    a[1:, 0] /= 4
    a[0] = x
    return a


@pytest.mark.parametrize("asked", _ASKED.values(), ids=_ASKED)
@pytest.mark.parametrize("dtype", [float, object])
def test_the_stand_in_does_what_numpy_does(
    asked: Callable[[Any, Any, Any], Any], dtype: type
) -> None:
    vector: list[Any] = _VECTOR
    matrix: list[Any] = _MATRIX
    if dtype is object:
        vector = [rational(entry) for entry in _VECTOR]
        matrix = [[rational(entry) for entry in row] for row in _MATRIX]
    wanted = asked(numpy, numpy.array(vector, dtype=dtype), numpy.array(matrix, dtype=dtype))
    ours = [arrays.array(row, dtype=dtype) for row in [vector, *matrix]]
    found = asked(arrays, ours[0], arrays.Array(ours[1:]))
    assert _plain(found) == wanted.tolist()
    assert (found.dtype is float) == (wanted.dtype == float)


def _plain(found: Any) -> Any:
    return [_plain(cell) for cell in found] if isinstance(found, arrays.Array) else found


def test_the_stand_in_raises_where_numpy_is_told_to() -> None:
    one, nothing = arrays.array([1e300], dtype=float), arrays.array([0.0], dtype=float)
    with pytest.raises(FloatingPointError):
        one * one
    with pytest.raises(FloatingPointError), arrays.errstate(all="raise"):
        one / nothing


_WITHOUT_NUMPY = """
import json, sys
import networkx, sympy
from playground import arrays
sys.modules["numpy"] = sys.modules["numpy.typing"] = arrays
from draftproof.reference.model import instance_from_json
from draftproof.reference.optimum import stateful, stateless
from draftproof.reference.rational import Rational
assert Rational.__name__ == "PythonMPQ"
for line in sys.stdin:
    instance = instance_from_json(json.loads(line))
    print(stateless(instance).value, stateful(instance).value)
"""


def test_the_optimum_is_the_same_without_numpy_and_gmpy2() -> None:
    """As in the browser. Every value is certified, with one arithmetic and the other."""
    instances = [
        *(instance_from_json(document) for document in OURS.values()),
        *seeded(6, 3, length=2, drafts=2),
        *seeded(4, 3, length=2, drafts=3, scheme="without_replacement"),
        *seeded(2, 2, length=3, drafts=3),
    ]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_NUMPY],
        input="\n".join(json.dumps(instance_to_json(instance)) for instance in instances),
        env={**os.environ, "SYMPY_GROUND_TYPES": "python", "PYTHONPATH": str(HOUSE / "docs")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    values = [f"{stateless(instance).value} {stateful(instance).value}" for instance in instances]
    assert done.stdout.split("\n") == [*values, ""]


# --- what is loaded -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (HOUSE / "docs/node_modules/pyodide").is_dir():
        pytest.skip("there is no Pyodide: npm ci in docs")
    pages = tmp_path_factory.mktemp("pages")
    building.build(pages)
    return pages / "playground"


def test_the_reference_is_loaded_unchanged(built: Path) -> None:
    with ZipFile(built / "draftproof.zip") as packed:
        sources = {name: packed.read(name) for name in packed.namelist()}
    reference = HOUSE / "reference"
    modules = {f.relative_to(reference).as_posix(): f for f in reference.glob("draftproof/**/*.py")}
    assert {name: file.read_bytes() for name, file in modules.items()}.items() <= sources.items()
    assert set(sources) - set(modules) == {"playground.py", "arrays.py"}


def test_every_part_has_its_licence_beside_it(built: Path) -> None:
    vendor = built / "vendor"
    for package in ("sympy", "mpmath", "networkx"):
        assert (vendor / f"{package}.zip").exists()
        assert list(vendor.glob(f"{package}.LICENSE*"))
    assert "Mozilla Public License" in (vendor / "pyodide/LICENSE.pyodide.txt").read_text()
    assert "PYTHON SOFTWARE FOUNDATION" in (vendor / "pyodide/LICENSE.python.txt").read_text()


# --- in a browser ---------------------------------------------------------------------------------


_ALONE = """<!doctype html>
<meta charset=utf-8>
<meta name=viewport content="width=device-width">
<title>Playground</title>
<link rel=icon href=data:,>
<link rel=stylesheet href=house.css>
<body data-md-color-scheme=default style="margin: 0">
<main class=md-typeset>
{story}<h2 id=now-exactly>Now exactly</h2>{widget}<h2 id=below>Below</h2>
</main>
"""


class _Server(http.server.SimpleHTTPRequestHandler):
    """Serves the files below a folder, as on the pages of a project."""

    def log_message(self, *_: object) -> None:
        pass

    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix("/draftproof"))


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    """Where the page is: alone, below a folder, or, with DRAFTPROOF_SITE, where that says."""
    if site := os.environ.get("DRAFTPROOF_SITE"):
        yield f"{site.rstrip('/')}/playground/"
        return
    text = (HOUSE / "docs/pages/playground/index.md").read_text(encoding="utf-8")
    story, widget = re.findall(r'^<div class="pg">.*?^</div>$(?=\n\n)', text, re.M | re.S)
    shutil.copyfile(HOUSE / "docs/theme/assets/house.css", built / "house.css")
    (built / "index.html").write_text(_ALONE.format(story=story, widget=widget), encoding="utf-8")
    handler = partial(_Server, directory=str(built.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/draftproof/playground/"
        server.shutdown()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page as it is when it was opened; it must have been quiet when it is closed."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, heard, asked = context.new_page(), [], []
    page.on("console", lambda said: heard.append(said.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    context.on("request", lambda request: asked.append(request.url))
    page.asked = asked
    page.goto(address)
    page.locator("draft-playground form:not([hidden])").wait_for()
    yield page
    context.close()
    assert heard == []
    start = address.removesuffix("playground/")
    assert [url for url in asked if not url.startswith((start, "data:", "blob:"))] == []


def part(page: Any, name: str) -> Any:
    return page.locator(f'[data-part="{name}"]')


def fragment(document: Document) -> str:
    """The link's fragment, written as a reader would."""
    names = {"vocabulary": "V", "length": "L", "drafts": "K", "scheme": "scheme"}
    pairs = [f"{short}={document[name]}" for name, short in names.items()]
    each = isinstance(document["target"], dict)
    pairs.append(f"rows={'each' if each else 'one'}")
    for model, letter in (("target", "p"), ("draft", "q")):
        rows = document[model] if each else {"": document[model]}
        for context, row in rows.items():
            key = ".".join([letter, *context.split(",")]) if context else letter
            pairs.append(f"{key}={','.join(row)}")
    return "&".join(pairs)


def shown(page: Any) -> dict[str, str]:
    """Every E[accepted length] in the table, by the name of its row."""
    pairs = page.locator(".pg-results [id^=pg-row-]").evaluate_all(
        """buttons => buttons.map((button) => {
            const cell = button.closest("tr").children[1];
            const long = cell.querySelector("details");
            const exact = long ? long.lastChild : cell.querySelector(".pg-exact");
            return [button.id.slice("pg-row-".length), exact.textContent];
        })"""
    )
    return dict(pairs)


def wait_until(page: Any, state: str, *, seconds: int = 60) -> None:
    page.locator(f'draft-playground[data-state="{state}"]').wait_for(timeout=seconds * 1000)


def test_an_example_is_there_before_python_is(page: Any) -> None:
    assert shown(page) == lengths(MOTIVATING)
    assert "when this site was built" in part(page, "status").inner_text()
    page.get_by_role("button", name="Two drafts").click()
    assert shown(page) == lengths(TWO_DRAFTS)
    assert not [url for url in page.asked if "pyodide" in url]
    page.get_by_role("slider", name="p(0)").press("ArrowRight")
    assert "Not computed yet" in part(page, "status").inner_text()
    assert not [url for url in page.asked if "pyodide" in url]


@pytest.mark.parametrize(
    ("fragment", "message"),
    [
        ("nonsense", "“nonsense” is not of the form name=value"),
        ("V=9&L=2&K=1&scheme=iid&rows=one&p=1&q=1", "“V” must be one of 1, 2, 3, 4, it is “9”"),
        ("L=2&K=1&scheme=iid&rows=one&p=1&q=1", "“V” is missing"),
        ("V=1&V=2", "“V” is given twice"),
        ("V=2&L=2&K=1&scheme=dice&rows=one", "“scheme” must be one of iid, without_replacement"),
        ("V=2&L=2&K=1&scheme=iid&rows=one&p=1,0", "“q” is missing: the row at the start"),
        ("V=2&L=2&K=1&scheme=iid&rows=one&p.0=1,0", "“p.0” names no row of this instance"),
        ("V=2&L=1&K=1&scheme=iid&rows=each&q.0=1,0", "“q.0” names no row of this instance"),
        ("V=2&L=2&K=1&scheme=iid&rows=one&p=%&q=1,0", "“%” is not percent-encoded"),
    ],
)
def test_a_malformed_link_says_what_is_wrong(page: Any, fragment: str, message: str) -> None:
    page.evaluate("fragment => { location.hash = fragment; }", fragment)
    complaint = part(page, "complaint")
    complaint.filter(has_text=message).wait_for(timeout=30_000)
    assert shown(page) == lengths(MOTIVATING)
    page.get_by_role("button", name="Two drafts").click()
    assert complaint.inner_text() == ""


def test_a_link_leads_to_its_instance_and_headings_have_theirs(page: Any) -> None:
    page.evaluate("fragment => { location.hash = fragment; }", fragment(BY_CONTEXT))
    page.get_by_role("button", name="Rows by context", pressed=True).wait_for()
    assert shown(page) == lengths(BY_CONTEXT)
    part(page, "context").select_option("1")
    assert page.get_by_label("Row of the draft").input_value() == ", ".join(
        BY_CONTEXT["draft"]["1"]
    )
    page.evaluate("() => { location.hash = document.querySelector('h2[id]').id; }")
    page.wait_for_timeout(100)
    assert part(page, "complaint").inner_text() == ""
    assert shown(page) == lengths(BY_CONTEXT)


def test_sliders_keep_rows_on_the_grid_and_give_back_what_they_took(page: Any) -> None:
    part(page, "V").select_option("4")
    slider, row = page.get_by_role("slider", name="p(3)"), page.get_by_label("Row of the target")
    before = row.input_value()
    assert before == "1/12, 1/6, 1/4, 1/2"
    slider.press("ArrowRight")
    assert row.input_value() != before
    assert slider.get_attribute("aria-valuetext") == "7/12"
    slider.press("ArrowLeft")
    assert row.input_value() == before
    slider.press("End")
    assert row.input_value() == "0, 0, 0, 1"
    slider.press("Home")
    weights = [eval(weight) for weight in row.input_value().split(", ")]
    assert weights[3] == 0
    assert sum(weights) == pytest.approx(1)
    page.get_by_role("slider", name="q(0)").press("End")
    page.get_by_role("slider", name="q(1)").press("ArrowRight")
    assert page.get_by_label("Row of the draft").input_value() == "11/12, 1/12, 0, 0"


def test_everything_is_reached_with_the_keyboard_and_has_a_name(page: Any) -> None:
    page.locator("#pg-row-block").press("Enter")
    assert page.locator("#pg-row-block").get_attribute("aria-expanded") == "true"
    assert page.locator("#pg-row-block").evaluate("element => element === document.activeElement")
    operable = "button, select, input, summary, a[href], [tabindex]"
    wanted = page.locator("draft-playground").evaluate(
        """(element, operable) => [...element.querySelectorAll(operable)]
            .filter((e) => e.offsetParent)
            .map((e, i) => { e.dataset.stop = i; return i; })""",
        operable,
    )
    stops, unseen = set(), []
    page.locator("[data-part=examples] button").first.focus()
    for _ in wanted:
        stop, outline, name = page.evaluate("""() => {
            const e = document.activeElement;
            const style = getComputedStyle(e);
            const labels = [...(e.labels ?? [])].map((label) => label.textContent).join(" ");
            const name = e.getAttribute("aria-label") ?? (labels || e.textContent);
            return [e.dataset.stop, style.outlineStyle, name];
        }""")
        stops.add(int(stop))
        if outline == "none" or not name.strip():
            unseen.append((stop, outline, name))
        page.keyboard.press("Tab")
    assert stops == set(wanted)
    # The first one was focused by a program, which browsers do not show.
    assert unseen[1:] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(browser: Any, address: str, scheme: str) -> None:
    page = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page.goto(address)
    page.locator("draft-playground form:not([hidden])").wait_for()
    for title in OURS:
        page.get_by_role("button", name=title, exact=True).click()
        names = list(shown(page))
        for name in (names[0], names[-1], *({"k_seq"} & set(names))):
            page.locator(f"#pg-row-{name}").click()
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, (title, name)
    page.close()


def test_the_browser_computes_with_the_reference(page: Any) -> None:
    """One start of Python, and everything that needs it."""
    part(page, "compute").click()
    page.get_by_text("Computed in your browser").wait_for(timeout=240_000)
    assert shown(page) == lengths(MOTIVATING)
    assert shown(page)["block"] == "11/9"
    assert shown(page)["token"] == "10/9"
    _note_when_it_begins(page)
    part(page, "compute").click()
    page.wait_for_function("() => window.hasBegun")
    wait_until(page, "finished")
    assert shown(page) == lengths(MOTIVATING)

    _computes_what_the_reference_does(page)
    _tells_the_law_on_given_drafts(page)
    _is_worked_by_the_keyboard_alone(page)
    _shows_refusals_in_their_place(page)
    _stops_and_goes_on(page)
    _stops_what_cannot_be_interrupted(page)


def _note_when_it_begins(page: Any) -> None:
    """Note that a computation has begun, however soon it ends."""
    page.evaluate(
        """() => {
            const note = records => {
                window.hasBegun ||= records.some(each => each.oldValue !== "finished");
            };
            const playground = document.querySelector("draft-playground");
            new MutationObserver(note).observe(
                playground, { attributeFilter: ["data-state"], attributeOldValue: true });
        }"""
    )


def _open(page: Any, document: Document) -> None:
    wanted = fragment(document)
    page.evaluate("fragment => { location.hash = fragment; }", wanted)
    page.locator(f'draft-playground[data-instance="{wanted}"]').wait_for()


def _computes_what_the_reference_does(page: Any) -> None:
    changed = {**TWO_DRAFTS, "target": ["5/12", "7/12"]}
    contexts = {**BY_CONTEXT, "draft": {**BY_CONTEXT["draft"], "0": ["1/2", "1/2"]}}
    three = {**MOTIVATING, "vocabulary": 3, "length": 1, "drafts": 2}
    three |= {"scheme": "without_replacement", "target": ["1/7", "2/7", "4/7"]}
    three |= {"draft": ["0.5", "0.25", "0.25"]}
    for document in (changed, contexts, three):
        _open(page, document)
        page.get_by_text("Computed in your browser").wait_for(timeout=60_000)
        assert shown(page) == lengths(document)


def _tells_the_law_on_given_drafts(page: Any) -> None:
    _open(page, TWO_DRAFTS)
    page.locator("#pg-row-traversal").press("Enter")
    page.get_by_label("Given").select_option("one")
    page.get_by_label("Path 1").select_option("0,1")
    page.get_by_label("Path 2").select_option("1,1")
    region = page.get_by_role("region", name="Emissions on these drafts")
    region.wait_for(timeout=30_000)
    cells = region.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.children].map((cell, i) =>"
        " i < 3 ? cell.textContent : cell.querySelector('.pg-exact').textContent))"
    )
    law = verification_law(
        ALGORITHMS["traversal"], instance_from_json(TWO_DRAFTS), ((0, 1), (1, 1))
    )
    assert {tuple(row) for row in cells} == {
        (" ".join(map(str, e.accepted)) or "none", str(e.next_token), str(e.path + 1), str(weight))
        for e, weight in law.items()
    }
    page.locator("#pg-row-traversal").press("Enter")


def _is_worked_by_the_keyboard_alone(page: Any) -> None:
    page.locator("[data-part=examples] button").first.focus()
    page.keyboard.press("Space")
    while page.evaluate("document.activeElement.id") != "pg-p-0":
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.get_by_text("Computed in your browser").wait_for(timeout=30_000)
    document = {**MOTIVATING, "target": ["5/12", "7/12"]}
    assert shown(page) == lengths(document) != lengths(MOTIVATING)
    assert page.evaluate("document.activeElement.id") == "pg-p-0"
    while page.evaluate("document.activeElement.id") != "pg-row-token":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("#pg-row-token").get_attribute("aria-expanded") == "true"
    wanted = f"#{fragment(document)}"
    page.wait_for_function("wanted => location.hash === wanted", arg=wanted, timeout=30_000)


def _shows_refusals_in_their_place(page: Any) -> None:
    page.get_by_label("Row of the draft").fill("1/2 1/3")
    refused = part(page, "draft-error")
    refused.filter(has_text="must sum to 1, it sums to 5/6").wait_for(timeout=30_000)
    assert refused.inner_text().startswith("The draft's row")
    assert part(page, "target-error").inner_text() == ""
    assert page.get_by_label("Row of the draft").get_attribute("aria-invalid") == "true"
    page.get_by_label("Row of the draft").fill("2/3 1/3")
    page.get_by_text("Computed in your browser").wait_for(timeout=30_000)
    assert refused.inner_text() == ""
    part(page, "K").select_option("3")
    part(page, "scheme").select_option("hub")
    part(page, "other-error").filter(has_text="'hub' draws pairs").wait_for(timeout=30_000)


def _stops_and_goes_on(page: Any) -> None:
    """Nothing large starts by itself; what is stopped goes on where it was, and nothing is lost."""
    document = {**LARGEST, "vocabulary": 3, "drafts": 2, "target": THREE, "draft": THREE[::-1]}
    _open(page, document)
    wait_until(page, "idle")
    assert part(page, "compute").inner_text() == "Go on"
    running = page.workers
    for _ in range(3):
        before = part(page, "results").inner_text()
        part(page, "compute").click()
        page.wait_for_function(
            "before => document.querySelector('.pg-results').innerText !== before",
            arg=before,
            timeout=30_000,
        )
        part(page, "compute").click()
        if part(page, "compute").inner_text() == "Compute again":
            break
        wait_until(page, "idle")
        # What cannot be interrupted is ended a little later.
        page.wait_for_timeout(1000)
    part(page, "compute").click()
    wait_until(page, "computing")
    wait_until(page, "finished", seconds=120)
    assert page.workers == running != []
    assert shown(page) == lengths(document)


def _stops_what_cannot_be_interrupted(page: Any) -> None:
    """The flow of SpecTr-GBV takes a minute in one step: its worker is ended."""
    _open(page, LARGEST)
    wait_until(page, "computing")
    wait_until(page, "idle")
    part(page, "compute").click()
    page.wait_for_timeout(3000)
    part(page, "compute").click()
    wait_until(page, "idle")
    page.wait_for_timeout(1500)
    assert part(page, "compute").inner_text().startswith(("Go on", "Compute"))
    page.get_by_role("button", name="Two drafts").click()
    assert shown(page) == lengths(TWO_DRAFTS)
