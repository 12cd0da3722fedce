"""The page in a browser: what it asks for, what goes wrong in it, and whether it fits."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance.report import rendered

CHROMIUM = shutil.which("chromium")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--enable-logging=stderr",
    # Whatever is asked for is written down, and nobody is asked.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)

PHONE, DESK = 390, 1440

# Frames have a width of their own, whatever the window's is, and their pages stay as they are.
FRAMES = """<!DOCTYPE html><meta charset="utf-8">{frames}
<script>
onload = () => {{
  document.body.dataset.told = JSON.stringify([...document.querySelectorAll("iframe")].map(f => {{
    const page = f.contentDocument;
    page.querySelectorAll("details").forEach(each => {{ each.open = true; }});
    const root = page.documentElement;
    return {{
      width: root.clientWidth,
      needs: root.scrollWidth,
      scripts: page.scripts.length,
      paper: f.contentWindow.getComputedStyle(page.body).backgroundColor,
    }};
  }}));
}};
</script>"""

BAD = """<!DOCTYPE html><div style="width: 2000px">wide</div>
<img src="https://draftproof.invalid/x.png"><script>throw new Error("heard")</script>"""


@dataclass(frozen=True)
class Seen:
    """What a browser made of a page: its elements, its complaints, what its pages asked for."""

    dom: str
    complaints: list[str]
    requests: list[str]

    @property
    def frames(self) -> list[dict[str, Any]]:
        (told,) = re.findall(r'data-told="(.*?)"', self.dom)
        frames: list[dict[str, Any]] = json.loads(html.unescape(told))
        return frames


def browsed(page: str, folder: Path, *flags: str) -> Seen:
    assert CHROMIUM is not None
    file, log = folder / "page.html", folder / "net.json"
    file.write_text(page, encoding="utf-8")
    ran = subprocess.run(
        [
            CHROMIUM,
            *FLAGS,
            *flags,
            f"--user-data-dir={folder / 'profile'}",
            f"--log-net-log={log}",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    complaints = [line for line in ran.stderr.splitlines() if ":CONSOLE:" in line]
    return Seen(ran.stdout, complaints, requests(json.loads(log.read_text(encoding="utf-8"))))


def requests(log: dict[str, Any]) -> list[str]:
    """Return what pages asked the network for; what the browser itself asks has no origin."""
    started = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    parameters = (e.get("params", {}) for e in log["events"] if e["type"] == started)
    return [p["url"] for p in parameters if "url" in p and p.get("initiator") != "not an origin"]


def framed(*pages: str) -> str:
    """Return a page that shows pages on a phone and on a desk, and measures them."""
    frames = (
        f'<iframe width="{width}" height="800" srcdoc="{html.escape(page)}"></iframe>'
        for page in pages
        for width in (PHONE, DESK)
    )
    return FRAMES.format(frames="".join(frames))


def test_what_is_wrong_with_a_page_is_seen(tmp_path: Path) -> None:
    seen = browsed(framed(BAD), tmp_path)
    assert [frame["needs"] > frame["width"] for frame in seen.frames] == [True, True]
    assert {frame["scripts"] for frame in seen.frames} == {1}
    assert "https://draftproof.invalid/x.png" in seen.requests
    assert len([line for line in seen.complaints if "heard" in line]) == 2


def test_pages_fit_ask_for_nothing_and_run_nothing(
    tmp_path: Path, conforming: dict[str, Any], failing: dict[str, Any], hostile: dict[str, Any]
) -> None:
    pages = [rendered(each, "html") for each in ([conforming, failing], [failing], [hostile], [])]
    seen = browsed(framed(*pages), tmp_path)
    assert len(seen.frames) == 2 * len(pages)
    for frame in seen.frames:
        assert frame["needs"] <= frame["width"], frame
        assert frame["scripts"] == 0
    assert seen.requests == []
    assert seen.complaints == []


def test_a_page_by_itself_asks_for_nothing(tmp_path: Path, hostile: dict[str, Any]) -> None:
    seen = browsed(rendered([hostile], "html"), tmp_path)
    assert seen.requests == []
    assert seen.complaints == []
    assert "Judge it again" in seen.dom


def test_the_policy_holds_what_would_be_asked_for(tmp_path: Path) -> None:
    page = rendered([], "html").replace("</main>", f"{BAD.split('</div>')[1]}</main>")
    seen = browsed(page, tmp_path)
    assert "draftproof.invalid" in seen.dom
    assert seen.requests == []
    assert sum("Content Security Policy" in line for line in seen.complaints) == 2


@pytest.mark.parametrize(("scheme", "paper"), [(1, "rgb(255, 255, 255)"), (0, "rgb(21, 24, 27)")])
def test_a_page_is_light_or_dark_as_its_reader_likes(
    tmp_path: Path, scheme: int, paper: str
) -> None:
    flag = f"--blink-settings=preferredColorScheme={scheme}"
    seen = browsed(framed(rendered([], "html")), tmp_path, flag)
    assert {frame["paper"] for frame in seen.frames} == {paper}
