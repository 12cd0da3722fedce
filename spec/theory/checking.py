"""The theory checked: compiled by Coq, and shown to rest on nothing that it assumes."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

from theory.sentences import LOCAL, STATEMENTS, required, results, sentences

FOLDER = Path(__file__).parent
"""The files of the theory."""

BUILD = FOLDER.parents[1] / "build/theory"
"""Where they are compiled, out of the way of whoever is writing them."""

JOBS = 2
"""How many files Coq works on at a time."""

INSTALL = """\
The theory needs Coq 8.16 and the algebra of mathcomp 1.15:
  Debian 12:  apt-get install coq libcoq-mathcomp-algebra
  elsewhere:  opam repo add coq-released https://coq.inria.fr/opam/released
              opam install coq.8.16.1 coq-mathcomp-algebra.1.15.0"""

# Of mathcomp's own: what it says twice, and two ways that lead to the same structure.
_QUIET = ("-w", "-notation-overridden,-ambiguous-paths")
_ASSUMING = re.compile(r"(Axiom|Parameter|Conjecture)s?|Primitive|Load")
_UNPROVED = re.compile(r"\b(Admitted|admit|give_up|Admit Obligations|bypass_check)\b")
_UNCHECKED = re.compile(r"(Unset|Set) .*\b(Guard|Positivity|Universe) Checking\b|Declare Module\b")
_CLOSED = "Closed under the global context"
_WITH_TERMS = STATEMENTS | {"Definition", "Fixpoint", "Let"}
_NAME = re.compile(r"[A-Za-z_][\w']*(?:\.[A-Za-z_][\w']*)*")


class Refused(Exception):
    """The theory does not hold as it stands; the message says line by line where and why."""


class Missing(Refused):
    """Coq or mathcomp is not installed; the message says how to install it."""


@dataclass(frozen=True)
class Checked:
    """A theorem that is proved: its file, its name, and what Coq says that it rests on."""

    file: str
    name: str
    rests_on: str


def files(folder: Path = FOLDER) -> dict[str, str]:
    """Return the files of a theory by name, each after those that it needs."""
    texts = {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.v"))}
    return {name: texts[name] for name in TopologicalSorter(_needed(texts)).static_order()}


def assumed(name: str, text: str) -> Iterator[str]:
    """Yield every sentence of a file that leaves something unproved, with where it stands."""
    for sentence in sentences(text):
        code = re.sub(r'"[^"]*"', '""', sentence.code)
        unproved = _UNPROVED.search(code)
        if unproved:
            why = f"`{unproved[0]}` leaves a proof open"
        elif _ASSUMING.fullmatch(sentence.head):
            why = f"`{sentence.head}` assumes what nobody proves"
        elif _UNCHECKED.match(code):
            why = "what Coq checks is checked everywhere"
        elif sentence.head in LOCAL and not sentence.in_section:
            why = f"`{sentence.head}` outside a section is an axiom"
        else:
            continue
        yield f"{name}.v:{sentence.line}: {why}: {sentence.code}"


def without_instance(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield every theorem that is applied to no concrete model.

    A theorem has an instance where a file of instances names it in a definition, a statement or a
    proof. A name that stands for something else as well must be said with its file's.
    """
    found = {name: sentences(text) for name, text in texts.items()}
    named = {
        name
        for file in filter(is_of_instances, texts)
        for sentence in found[file]
        if sentence.is_proof or sentence.head in _WITH_TERMS
        for name in _NAME.findall(re.sub(r'"[^"]*"', "", sentence.code))
    }
    stated = Counter(each.name for every in found.values() for each in every if not each.is_proof)
    for file in texts:
        for theorem in found[file]:
            if is_of_instances(file) or not theorem.is_result or theorem.head == "Example":
                continue
            is_alone = stated[theorem.name] == 1
            if f"{file}.{theorem.qualified}" in named or (is_alone and theorem.name in named):
                continue
            yield (
                f"{file}.v:{theorem.line}: `{theorem.name}` has no instance: "
                "apply it to a concrete model in an instances file"
            )


def is_of_instances(name: str) -> bool:
    """Return whether a file has instances of the theorems of the others."""
    return name == "instances" or name.startswith("instances_")


def check(folder: Path = FOLDER, build: Path = BUILD) -> list[Checked]:
    """Compile a theory and return what each of its theorems rests on, which is nothing.

    Raises `Missing` where Coq or mathcomp is not installed, and `Refused` for a theory that does
    not compile, or assumes something, or has a theorem without an instance.
    """
    texts = files(folder)
    wrong = [each for name, text in texts.items() for each in assumed(name, text)]
    if wrong := [*wrong, *without_instance(texts)]:
        raise Refused("\n".join(wrong))
    compiled(folder, build)
    found = assumptions(folder, build)
    if wrong := [f"{each.file}.{each.name}: {each.rests_on}" for each in found if not _holds(each)]:
        raise Refused("\n".join(wrong))
    return found


def compiled(folder: Path = FOLDER, build: Path = BUILD) -> Mapping[str, float]:
    """Compile what has changed, into `build`; return the seconds that each file took.

    Raises `Missing` and `Refused`.
    """
    require_coq()
    texts = files(folder)
    needed = _needed(texts)
    digests: dict[str, str] = {}
    for name, text in texts.items():
        said = "".join([text, *(digests[each] for each in needed[name])])
        digests[name] = hashlib.sha256(said.encode()).hexdigest()
    build.mkdir(parents=True, exist_ok=True)
    took: dict[str, float] = {}
    with _alone(build), ThreadPoolExecutor(JOBS) as workers:
        order = TopologicalSorter(needed)
        order.prepare()
        running: dict[Future[float], str] = {}
        while order.is_active():
            for name in order.get_ready():
                if _is_current(build, name, digests[name]):
                    order.done(name)
                else:
                    job = workers.submit(_compile, build, name, texts[name], digests[name])
                    running[job] = name
            for job in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(job)
                took[name] = job.result()
                order.done(name)
    return took


def assumptions(folder: Path = FOLDER, build: Path = BUILD) -> list[Checked]:
    """Return what every theorem of a compiled theory rests on, as Coq prints it.

    Coq is asked about all of them at once, which takes it a tenth of the time, and much longer if
    they are one long tuple; and, only if that rests on anything, about each.
    """
    theorems = [
        (name, sentence.qualified)
        for name, text in files(folder).items()
        for sentence in results(text)
    ]
    if not theorems:
        return []
    needed = f"From Draftproof Require {' '.join(dict.fromkeys(file for file, _ in theorems))}.\n"
    every = [f"@{file}.{name}" for file, name in theorems]
    parts = [", ".join(every[first : first + 20]) for first in range(0, len(every), 20)]
    asked = "".join(f"Definition part{i} := ({part}).\n" for i, part in enumerate(parts))
    whole = ", ".join(f"part{i}" for i in range(len(parts)))
    asked += f"Definition whole := ({whole}).\nPrint Assumptions whole.\n"
    if (said := evaluated(needed + asked, build).strip()) == _CLOSED:
        return [Checked(file, name, said) for file, name in theorems]
    asked = "".join(
        f'Goal True. idtac "== {file}.{name}". Abort.\nPrint Assumptions {file}.{name}.\n'
        for file, name in theorems
    )
    answers = {}
    for part in evaluated(needed + asked, build).split("== ")[1:]:
        theorem, _, answer = part.partition("\n")
        answers[theorem] = answer.strip()
    return [Checked(file, name, answers[f"{file}.{name}"]) for file, name in theorems]


def evaluated(program: str, build: Path = BUILD) -> str:
    """Return what Coq prints for a file that uses a compiled theory. Raises `Refused`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "asked.v")
        file.write_text(program, encoding="utf-8")
        return _coqc(file, build)


def require_coq() -> None:
    """Raise `Missing` unless Coq is there, with mathcomp."""
    if shutil.which("coqc") is None:
        raise Missing(f"coqc is not installed.\n{INSTALL}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "asked.v")
        file.write_text("From mathcomp Require all_ssreflect all_algebra.\n", encoding="utf-8")
        try:
            _coqc(file, Path(folder))
        except Refused as error:
            raise Missing(f"mathcomp's algebra is not installed.\n{INSTALL}") from error


def _needed(texts: Mapping[str, str]) -> dict[str, list[str]]:
    needed = {name: required(text) for name, text in texts.items()}
    if wrong := [
        f"{name}.v needs {each}.v, which is not there"
        for name, asked in needed.items()
        for each in asked
        if each not in texts
    ]:
        raise Refused("\n".join(wrong))
    return needed


def _holds(each: Checked) -> bool:
    return each.rests_on == _CLOSED


def _is_current(build: Path, name: str, digest: str) -> bool:
    stamp = build / f"{name}.sha256"
    is_known = stamp.exists() and stamp.read_text(encoding="utf-8") == digest
    return is_known and (build / f"{name}.vo").exists()


def _compile(build: Path, name: str, text: str, digest: str) -> float:
    started = time.monotonic()
    stamp = build / f"{name}.sha256"
    stamp.unlink(missing_ok=True)
    (build / f"{name}.v").write_text(text, encoding="utf-8")
    _coqc(build / f"{name}.v", build)
    stamp.write_text(digest, encoding="utf-8")
    return time.monotonic() - started


def _coqc(file: Path, build: Path) -> str:
    call = ["coqc", "-q", *_QUIET, "-Q", str(build), "Draftproof", file.name]
    done = subprocess.run(  # noqa: S603  # our own command
        call, cwd=file.parent, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        told = done.stderr.strip() or f"coqc ended with {done.returncode} and said nothing"
        raise Refused(f"{file.name} does not compile:\n{told}")
    return done.stdout


@contextmanager
def _alone(build: Path) -> Iterator[None]:
    """Hold a folder against other processes that compile into it."""
    with (build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
