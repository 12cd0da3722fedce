"""The folders of chapters and schemas: beside this package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent
_CHECKOUT = _PACKAGE.parent.parent

FOLDER = _PACKAGE if (_PACKAGE / "schemas").is_dir() else _CHECKOUT
