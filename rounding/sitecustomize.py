"""Loads the shim (`shim.py`), which Python does where this folder is on PYTHONPATH.

The shim stands for the processor: its lines count as Python's own, never as those of a program
that calls exp.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

if "ROUNDING" in os.environ:
    _text = Path(__file__).with_name("shim.py").read_text()
    _shim = sys.modules["shim_of_rounding"] = ModuleType("shim_of_rounding")
    _file = Path(sysconfig.get_path("stdlib"), "shim_of_rounding.py")
    exec(compile(_text, str(_file), "exec"), _shim.__dict__)  # noqa: S102  # it is our own
    _shim.begin(int(os.environ["ROUNDING"]))
