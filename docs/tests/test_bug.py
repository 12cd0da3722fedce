"""The bug of the README, its exact law, and the lines that are shown beside it."""

from __future__ import annotations

from building import bug

from draftproof.reference.rational import rational


def test_the_law_of_the_bug_is_exact() -> None:
    written, wanted = bug.texts()
    assert written[1, 0] == rational("3/16")
    assert wanted[1, 0] == rational("3/64")
    assert bug.distance() == rational("15/64")


def test_the_texts_that_are_not_bonus_tokens_are_right() -> None:
    # Only an accepted token is followed by a bonus, so the first token has the target's law.
    written, wanted = bug.texts()
    assert written.map(lambda text: text[0]) == wanted.map(lambda text: text[0])


def test_the_line_with_the_bug_is_marked() -> None:
    shown = bug.beside().splitlines()
    start = shown.index('```python hl_lines="2"')
    assert shown[start + 2].startswith("bonus = q[:, -1:]")
