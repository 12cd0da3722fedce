"""Known failures: requirements that an adapter is known to fail, each with its issue."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from draftproof.spec import FileTooLarge, content_of, requirements

_MOST_BYTES = 2**18


class InvalidKnownFailures(ValueError):
    """Error of an unreadable file of known failures, or of an invalid line in it."""


def read_known_failures(path: Path) -> dict[str, str]:
    """Return the issue of every requirement that a file names.

    A line has the id of a requirement and a link to its issue; a comment begins with a separate
    "#". Raises `InvalidKnownFailures`.
    """
    text = _text(path)
    known: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if "#" in words:
            words = words[: words.index("#")]
        if not words or words[0].startswith("#"):
            continue
        where = f"{path}, line {number}"
        if len(words) != 2 or not words[1].startswith(("https://", "http://")):
            raise InvalidKnownFailures(
                f"{where}: expected the id of a requirement and the link to its issue, such as "
                f"'law.support https://example.org/issues/1', got {line.strip()!r}"
            )
        identity, issue = words
        if not issue.isprintable():
            raise InvalidKnownFailures(f"{where}: a link must be printable, got {issue!r}")
        if identity not in requirements():
            near = get_close_matches(identity[:100], requirements(), n=1)
            meant = f", did you mean {near[0]!r}?" if near else ""
            raise InvalidKnownFailures(f"{where}: there is no requirement {identity!r}{meant}")
        if identity in known:
            raise InvalidKnownFailures(f"{where}: {identity!r} is there twice")
        known[identity] = issue
    return known


def _text(path: Path) -> str:
    try:
        return content_of(path, most=_MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise InvalidKnownFailures(f"cannot read {str(path)!r}: {error.strerror}") from None
    except FileTooLarge as error:
        raise InvalidKnownFailures(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise InvalidKnownFailures(f"cannot read {str(path)!r}: it is not UTF-8 text") from None
