"""A bug beside the distribution that it breaks: the README's example, its law and its picture.

    python -m building.bug

Run in docs, this command writes the pictures of the README.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from textwrap import dedent
from typing import Any, cast

from telling import blocks

from building.markdown import fenced
from building.pages import HOUSE
from building.pictures import bars, both, shown
from draftproof.conformance.cases.case import Case
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.protocol.adapter import program_of
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Path
from draftproof.reference.process import continued
from draftproof.reference.rational import Rational, rationals

PLACE = "pictures/bug"
"""The place of the two pictures, on the site and below the folder docs."""

INSTANCE = Instance(
    Model("target", 3, {(): rationals(("1/8", "3/8", "1/2"))}, context_free=True),
    Model("draft", 3, {(): rationals(("1/2", "3/8", "1/8"))}, context_free=True),
    length=1,
)
"""One drafted token, V = 3. All its probabilities are exact in float32, and so is the law."""


def main() -> None:
    """Write the pictures of the README."""
    (HOUSE / "docs/pictures").mkdir(exist_ok=True)
    for place, content in files().items():
        (HOUSE / "docs" / place).write_bytes(content)


def files() -> Mapping[str, bytes]:
    """Return the pictures for light and for dark paper."""
    return both(PLACE, picture())


@cache
def code() -> str:
    """Return the adapter with the bug from the README."""
    readme = (HOUSE / "README.md").read_text(encoding="utf-8")
    (found,) = (block.text for block in blocks(readme) if block.title == "mine.py")
    return found


@cache
def texts() -> tuple[Law[Path], Law[Path]]:
    """Return the law of the text that the adapter writes, and the target's."""
    defined: dict[str, Any] = {}
    exec(compile(code(), "mine.py", "exec"), defined)  # noqa: S102  # our README's
    seen = observe(program_of(defined["Mine"]()), Case("bug", "", "quick", INSTANCE))
    horizon = INSTANCE.length + 1
    emitted = cast("Law[Emission]", seen.emitted())  # it raises nothing
    return continued(emitted, seen.instance, horizon), INSTANCE.target.text(horizon)


def distance() -> Rational:
    """Return the total variation between the two laws."""
    written, wanted = texts()
    return written.total_variation(wanted)


def picture() -> str:
    """Return the two laws as bars."""
    written, wanted = texts()
    drawn = {
        " ".join(map(str, text)): (written[text], weight) for text, weight in sorted(wanted.items())
    }
    return bars(
        drawn,
        names=("the verifier's distribution", "the target's distribution"),
        title="The distribution of two tokens, with the bug and without",
        told=told(),
    )


def told() -> str:
    """Return the description of the picture in words."""
    written, wanted = texts()
    return "; ".join(
        f"the text {' '.join(map(str, text))} has probability {written[text]}, "
        + (f"not {weight}" if written[text] != weight else "as in the target")
        for text, weight in sorted(wanted.items())
    )


def beside() -> str:
    """Return the lines with the bug, followed by the picture."""
    lines = code().splitlines()
    (wrong,) = (number for number, line in enumerate(lines) if "# bug:" in line)
    around = dedent("\n".join(lines[wrong - 1 : wrong + 2]))
    return "\n\n".join(
        (
            '<div class="beside" markdown>',
            "<div markdown>",
            fenced(around, "python", options='hl_lines="2"'),
            "</div>",
            "<div markdown>",
            shown(PLACE, f"The distribution with this bug: {told()}"),
            "</div>",
            "</div>",
        )
    )


COMPUTED: Mapping[str, Callable[..., str]] = {"bug": beside}
"""The forms of this module by name."""


if __name__ == "__main__":
    main()
