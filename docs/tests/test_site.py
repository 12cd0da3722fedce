"""The site as it was built: every link leads somewhere, and nothing is asked of anybody else."""

from __future__ import annotations

import http.server
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from building import glossary
from building.checking import faults
from building.pages import HOUSE
from telling import blocks, commands

SITE = HOUSE / "site"

pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site: make docs")


def all_pages() -> list[str]:
    """Return where the pages are, but for the sources of the project."""
    places = (file.relative_to(SITE) for file in sorted(SITE.rglob("index.html")))
    return [place.as_posix() for place in places if place.parts[0] != "source"]


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere() -> None:
    assert not [*faults(SITE)]


def test_what_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/index.html").write_text('<h1 id="here">x</h1>')
    (tmp_path / "index.html").write_text(
        '<a href="there/#here">right</a> <a href="there/#gone">1</a> <a href="gone/">2</a>'
        '<script src="https://example.org/x.js"></script><img src="data:image/png;base64,">'
        '<a href="https://example.org">a link is not loaded</a>'
    )
    (tmp_path / "x.css").write_text("@font-face { src: url(//example.org/y.woff2) }")
    assert [*faults(tmp_path)] == [
        "index.html: there/#gone: that page has no such anchor",
        "index.html: gone/: there is no such page",
        "index.html: it loads https://example.org/x.js, which is not of this site",
        "x.css: it loads //example.org/y.woff2, which is not of this site",
    ]


@pytest.mark.parametrize(
    "shown",
    [
        "<p>| K | L |\n| --: | --: | --: |\n| 1 | 4 |</p>",
        "<p>Measured:\n| K | L |\n| --: |</p>",
        "<ul><li>| K | L |\n| --: |</li></ul>",
        "<p>| K | <code>a</code> | L |</p>",
    ],
)
def test_a_table_that_is_raw_text_is_found(tmp_path: Path, shown: str) -> None:
    (tmp_path / "index.html").write_text(f"<body>{shown}</body>")
    (fault,) = faults(tmp_path)
    assert fault.startswith("index.html: Markdown is shown as text: | K | ")


def test_a_class_that_is_shown_as_text_is_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        "<p>Is it lossless? { .lead }</p><p><code>{ .a }</code></p>"
    )
    assert [*faults(tmp_path)] == ["index.html: Markdown is shown as text: { .lead }"]


def test_what_only_looks_like_a_table_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        "<pre><code>| a | b |\n| - |</code></pre><p>|x| is no row</p>"
        "<p>nor is\n<code>| a |</code></p>"
        "<table><tr><td>a | b</td><td>|</td></tr></table><script>\n| a |\n</script>"
    )
    assert not [*faults(tmp_path)]


def test_every_page_has_its_card() -> None:
    for place in ("", "engines/", "spec/01-notation/"):
        text = (SITE / place / "index.html").read_text(encoding="utf-8")
        (card,) = re.findall(r'<meta property="og:image" content="([^"]*)">', text)
        assert (SITE / place / card).resolve() == SITE / "assets/card.png"


def test_a_page_names_its_file_and_leads_to_it_where_the_repository_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (HOUSE / "docs/.pages/how-to/lossless.md").read_text(encoding="utf-8")
    (front,) = re.findall(r"\A---\n.*?\n---\n", whole, re.S)
    assert 'origin: "docs/pages/how-to/lossless.md"\n' in front
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text(f"{front}\n# Title\n", encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text(
        "site_name: a\nrepo_url: !ENV [DRAFTPROOF_REPOSITORY, '']\n"
        "theme:\n  name: material\n  font: false\n"
        f"  custom_dir: {HOUSE / 'docs/theme/overrides'}\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet"]
    for repository in ("", "https://example.org/a/b"):
        monkeypatch.setenv("DRAFTPROOF_REPOSITORY", repository)
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
        text = (tmp_path / "site/index.html").read_text(encoding="utf-8")
        links = re.findall(r'<p class="origin">\s*<a href="([^"]*)"', text)
        expected = f"{repository}/edit/main/docs/pages/how-to/lossless.md"
        assert links == ([expected] if repository else [])


def test_terms_are_explained_where_they_are_read() -> None:
    text = (SITE / "explanation/algorithms/block/index.html").read_text(encoding="utf-8")
    assert f'<abbr title="{glossary.definition("correction")}">' in text


def test_no_page_says_where_it_was_built() -> None:
    assert not [
        file for file in SITE.rglob("*.html") if str(HOUSE) in file.read_text(encoding="utf-8")
    ]


def test_zensical_makes_a_site_of_the_same_pages(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    shutil.copytree(HOUSE / "docs/.pages", tmp_path / "docs/.pages")
    config = (HOUSE / "mkdocs.yml").read_text(encoding="utf-8")
    for room in ("spec", "reference", "conformance", "adapters"):
        (tmp_path / room).symlink_to(HOUSE / room)
    (tmp_path / "docs/theme").symlink_to(HOUSE / "docs/theme")
    (tmp_path / "mkdocs.yml").write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    assert not [*faults(tmp_path / "site")]
    pages = {file.relative_to(SITE) for file in SITE.rglob("index.html")}
    assert pages == {file.relative_to(tmp_path / "site") for file in tmp_path.rglob("index.html")}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The site, served below a folder, as on pages of a project."""
    handler = partial(_Below, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/draftproof/"
        server.shutdown()


class _Below(_Quiet):
    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix("/draftproof"))


def test_pages_are_quiet_in_a_browser_and_fit_its_window(browser: Any, address: str) -> None:
    """No error, no request to anybody else, every formula set, and nothing wider than a window."""
    heard, asked, too_wide = [], [], []
    page = browser.new_page()
    page.on(
        "console", lambda said: heard.append((page.url, said.text)) if said.type == "error" else 0
    )
    page.on("pageerror", lambda error: heard.append((page.url, str(error))))
    page.on("request", lambda request: asked.append(request.url))
    for place in all_pages():
        page.goto(address + place.removesuffix("index.html"), wait_until="load")
        marked = page.locator(".arithmatex").count()
        assert page.locator(".arithmatex .katex").count() == marked, place
        assert page.locator(".katex-error").count() == 0, place
        # What glides to its place may be wider on its way.
        page.add_style_tag(content="*, ::before, ::after { transition: none !important }")
        for width in (360, 390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            if page.evaluate("document.documentElement.scrollWidth") > width:
                too_wide.append((place, width))
    assert not heard
    assert not too_wide
    assert asked
    assert all(url.startswith((address, "data:", "blob:")) for url in asked)


CONSOLES = {
    file.relative_to(HOUSE / "docs/pages").with_suffix("").as_posix().removesuffix("index"): found
    for file in sorted((HOUSE / "docs/pages").rglob("*.md"))
    if (
        found := [
            "\n".join(command for command, _ in commands(block.text))
            for block in blocks(file.read_text(encoding="utf-8"))
            if block.language == "console"
        ]
    )
}
"""The commands of every console block, by the place of its page."""


FOCUSED = """() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const isMarked = style.outlineStyle !== "none" && style.outlineWidth !== "0px";
  const isBeside = box.right <= 0 || box.left >= innerWidth;
  const isInView = box.bottom > 0 && box.top < innerHeight && !isBeside;
  return [isMarked && isInView, element.className || element.outerHTML];
}"""
THEMES_OWN = ("md-option", "md-search__input", "md-search__scrollwrap")
"""Elements whose focus Material for MkDocs shows on their label, or by opening its search."""


@pytest.mark.parametrize("place", ["", "engines/", "playground/", "how-to/lossless/", "field/"])
def test_focus_is_seen_wherever_the_tab_key_leads(browser: Any, address: str, place: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}{place}", wait_until="load")
    stops = []
    for _ in range(60):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(FOCUSED))
    page.close()
    reached = [each for each in stops if each is not None]
    assert len(reached) > 40
    unseen = [name for is_seen, name in reached if not is_seen]
    assert [name for name in unseen if not name.startswith(THEMES_OWN)] == []


def test_a_copy_button_copies_commands_alone(browser: Any, address: str) -> None:
    """Neither prompts nor outputs of a console block; of any other block, all of it."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()

    def copied(block: Any) -> str:
        block.locator("xpath=..").get_by_title("Copy to clipboard").click(force=True)
        return str(page.evaluate("navigator.clipboard.readText()"))

    for place, wanted in CONSOLES.items():
        page.goto(address + place)
        consoles = page.locator("pre > code:has(.gp)")
        assert [copied(each) for each in consoles.all()] == wanted, place
    page.goto(address + "first-certificate/")
    others = page.locator("pre > code:not(:has(.gp))")
    assert copied(others.first).startswith("python3 -m venv ~/draftproof\nsource")
    context.close()


def test_a_command_of_several_lines_is_copied_whole(browser: Any) -> None:
    page = browser.new_page()
    page.set_content(
        '<pre><code><span class="gp">$ </span>first \\\n    and on\n<span class="go">$5</span>\n'
        '<span class="gp">$ </span>second</code></pre>'
        '<pre><code><span class="gp">&gt;&gt;&gt; </span>1</code></pre>'
    )
    page.add_script_tag(path=HOUSE / "docs/theme/assets/copying.js")
    page.evaluate("document.dispatchEvent(new Event('DOMContentLoaded'))")
    copied = "[...document.querySelectorAll('code')].map((each) => each.dataset.copy ?? null)"
    assert page.evaluate(copied) == ["first \\\n    and on\nsecond", None]
    page.close()


def test_search_finds_a_requirement(browser: Any, address: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(address)
    page.get_by_label("Search", exact=True).first.click()
    page.keyboard.type("Losslessness of the text")
    # What is found changes while one types.
    page.locator(".md-search-result__link[href*='text.lossless']").first.wait_for(
        state="attached", timeout=20_000
    )
