"""The programs of the theory as a harness: extracted to OCaml, and compiled with its protocol."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from theory.checking import BUILD, FOLDER, Missing, Refused, compiled

PROTOCOL = FOLDER / "harness/harness.ml"
"""The part that is written by hand: the protocol of harnesses, around the extracted programs."""

INSTALL = """\
The harness needs what makes the theory (`make theory`), and zarith to compile with it:
  Debian 12:  apt-get install libzarith-ocaml-dev
  elsewhere:  opam install ocamlfind zarith"""

# What Coq writes when it compiles extraction.v.
_EXTRACTED = ("theory.mli", "theory.ml")
# All warnings are errors here, but for those that extracted programs are full of.
_FLAGS = ("-package", "unix,zarith", "-linkpkg", "-w", "+a-4-39-40-41-42-44-45-70")


def require_ocaml() -> None:
    """Raise `Missing` unless a compiler of OCaml is there, with zarith."""
    if shutil.which("ocamlfind") is None:
        raise Missing(f"ocamlfind is not installed.\n{INSTALL}")
    if _ran("ocamlfind", "query", "zarith").returncode != 0:
        raise Missing(f"zarith is not installed.\n{INSTALL}")


def harness(build: Path = BUILD) -> Path:
    """Return the harness, made of the theory as it is now.

    Raises `Missing` where something to make it with is not installed, and `Refused` where the
    theory or the harness does not compile.
    """
    require_ocaml()
    extracted = [build / name for name in _EXTRACTED]
    if not all(file.exists() for file in extracted):
        (build / "extraction.sha256").unlink(missing_ok=True)
    compiled(build=build)
    sources = [*extracted, PROTOCOL]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()
    program, stamp = build / "harness", build / "harness.sha256"
    if program.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return program
    with tempfile.TemporaryDirectory(dir=build) as folder:
        names = [Path(shutil.copy(file, folder)).name for file in sources]
        done = _ran("ocamlfind", "ocamlopt", *_FLAGS, *names, "-o", "harness", folder=folder)
        if done.returncode != 0 or done.stderr:
            raise Refused(f"the harness does not compile:\n{done.stderr}")
        Path(folder, "harness").replace(program)
    stamp.write_text(digest, encoding="utf-8")
    return program


def _ran(*call: str, folder: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  # our own command
        call, cwd=folder, capture_output=True, text=True, check=False
    )
