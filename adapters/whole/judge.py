"""Judge whole released engines by their output: `make engines`.

    python adapters/whole/judge.py [--tokens N] [--check] [ROW...]

makes an environment for each engine in `.venv-engines` from a lock with all hashes, checkpoints of
memory 1 and 2, and judges every row of `rows.toml` on both. A second run reads the certificates
that exist, and continues rows that were interrupted. If a row cannot run, the record has the
reason, or keeps the row's earlier verdict. The record is `record.json`; `--check` compares the
verdicts with it instead of writing it. The exit code is 1 if a verdict differs, and 3 if a row
could not run and is not skipped.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from ctypes import CDLL
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parent))
from driven import ENVIRONMENTS, HERE, rows

ROOT = HERE.parents[1]
LOCKS = ROOT / "locks"
RECORD = HERE / "record.json"
CERTIFICATES = ENVIRONMENTS / "certificates"
CHECKPOINTS = {
    "memory-1": ("--kind", "memory-1", "--vocabulary", "11", "--zeros", "1"),
    "memory-2": ("--kind", "memory-2", "--vocabulary", "11", "--zeros", "1"),
    "heads": ("--kind", "heads", "--vocabulary", "11", "--zeros", "1"),
}


class Unavailable(RuntimeError):
    """An engine is not available here; the message gives the reason."""


def environment(name: str) -> None:
    """Make the environment of an engine, unless it is there. Raises `Unavailable`."""
    folder, lock, before = ENVIRONMENTS / name, lock_of(name), ENVIRONMENTS / f"{name}.before"
    done = folder / "done"
    if done.exists() and done.read_bytes() == lock.read_bytes():
        return
    shutil.rmtree(before, ignore_errors=True)
    if folder.exists():
        folder.rename(before)
    try:
        made(folder, lock)
    except Unavailable:
        shutil.rmtree(folder, ignore_errors=True)
        if before.exists():
            before.rename(folder)
        raise
    shutil.rmtree(before, ignore_errors=True)
    shutil.copyfile(lock, done)


def lock_of(name: str) -> Path:
    """Return the file that says all of an environment: a script, or packages with their hashes."""
    script = HERE / "locks" / f"{name}.sh"
    return script if script.exists() else script.with_suffix(".txt")


def made(folder: Path, lock: Path) -> None:
    """Make an environment from its lock. Raises `Unavailable`."""
    if lock.suffix == ".sh":
        ran(["bash", str(lock), str(folder)], lock.name)
    else:
        ran([sys.executable, "-m", "venv", str(folder)], "venv")
        pip = (str(folder / "bin" / "pip"), "install", "--quiet", "--require-hashes", "--no-deps")
        if "torch==" in lock.with_suffix(".in").read_text("utf-8"):
            torch = ("--requirement", str(LOCKS / "torch.txt"))
            ran([*pip, *torch, "--index-url", "https://download.pytorch.org/whl/cpu"], "pip")
        ran([*pip, "--requirement", str(lock)], "pip")


def ran(command: Sequence[str], name: str) -> None:
    """Run a command. Raises `Unavailable` with its last line."""
    found = subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=end_with_parent
    )
    if found.returncode:
        last = found.stderr.strip().splitlines()[-1:] or [f"exit code {found.returncode}"]
        raise Unavailable(f"{name}: {last[0][:200]}")


def end_with_parent() -> None:
    """End this process with its parent, on Linux, so that a killed run leaves no process behind."""
    if sys.platform == "linux":
        CDLL(None).prctl(_WHEN_PARENT_ENDS, signal.SIGTERM)


_WHEN_PARENT_ENDS = 1


def checkpoint(kind: str) -> Path:
    """Write a checkpoint, unless it is there."""
    folder = ENVIRONMENTS / "checkpoints" / kind
    if not (folder / "rows.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        ran([*DRAFTPROOF, "checkpoint", str(folder), *CHECKPOINTS[kind]], "draftproof checkpoint")
    return folder


DRAFTPROOF = (sys.executable, "-c", "from draftproof.conformance.cli import main; main()")


def judged(name: str, kind: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is recorded of a row on a checkpoint, after judging it. Raises `Unavailable`.

    A certificate of other terms, which are the lock and the number of tokens, is not read.
    """
    out, tokens = CERTIFICATES / kind, terms["asked"]
    path = out / f"{name.replace('_', '-')}.json"
    own = path.with_suffix(".terms")
    if not own.exists() or json.loads(own.read_text("utf-8")) != terms:
        for each in (path, *out.glob(f"{path.stem}.jsonl*")):
            each.unlink(missing_ok=True)
        out.mkdir(parents=True, exist_ok=True)
        own.write_text(json.dumps(terms), encoding="utf-8")
    if not path.exists():
        command = [
            *(*DRAFTPROOF, "engine", f"{HERE / 'driven.py'}:{name}", "--seed", "0"),
            *("--rows", str(checkpoint(kind) / "rows.json"), "--tokens-at-most", str(tokens)),
            *("--output", str(out), "--json"),
        ]
        unfinished = [*out.glob(f"{path.stem}.jsonl*")]
        code, error = asked([*command, "--resume"] if unfinished else command)
        if code == MALFORMED:
            # What was left is of other terms: another version, or other settings.
            for each in unfinished:
                each.unlink()
            code, error = asked(command)
        if code not in (0, 1, 4):
            raise Unavailable(error)
    day = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
    return {"judged": day, **told(json.loads(path.read_text("utf-8")), tokens)}


MALFORMED = 5
"""The exit code where evidence cannot go on."""


def asked(command: Sequence[str]) -> tuple[int, str]:
    """Return the exit code of Draftproof, and its error."""
    found = subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=end_with_parent,
    )
    told = [line for line in found.stderr.splitlines() if line.startswith("Error")]
    return found.returncode, (told or [f"exit code {found.returncode}"])[-1][:300]


def told(document: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """Return the figures of a certificate: all tokens with plain sampling, and what failed."""
    said = document["predicate"]["draftproof"]
    decided = {each["id"]: each for each in said["requirements"]}
    plain = next(
        each for each in decided["engine.lossless"]["findings"] if each["case"] == "all-plain"
    )
    return {
        "verdict": said["verdict"],
        "version": said["adapter"]["version"],
        "asked": tokens,
        "tokens": plain["runs"],
        "distance": plain["distance"],
        "bound": plain["sampled"]["bound"],
        "requirements": {name: each["verdict"] for name, each in decided.items()},
        "told": {
            name: f"{each['worst']['case']}: {each['worst']['detail']}"
            for name, each in decided.items()
            if each["verdict"] not in ("pass", "skipped")
        },
    }


def recorded() -> dict[str, Any]:
    """Return what is on record. Raises `ValueError`."""
    try:
        found: dict[str, Any] = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    except json.JSONDecodeError as error:
        raise ValueError(f"record.json: {error}") from None
    return found


def record(name: str, row: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Write what was found of a row, where another run may have written another one meanwhile."""
    told = {"engine": row["engine"], "method": row["method"], "checkpoints": found}
    ENVIRONMENTS.mkdir(exist_ok=True)
    with (ENVIRONMENTS / "record.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        every = {**recorded(), name: told}
        kept = {key: every[key] for key in rows() if key in every}
        whole = RECORD.with_suffix(".new")
        whole.write_text(f"{json.dumps(kept, indent=2)}\n", encoding="utf-8")
        whole.replace(RECORD)


def found_now(name: str, row: Mapping[str, Any], kind: str, tokens: int) -> dict[str, Any]:
    """Return what there is to record of a row on a checkpoint, or why it cannot run."""
    try:
        if "skipped" in row:
            raise Unavailable(row["skipped"])
        environment(row["environment"])
        lock = sha256(lock_of(row["environment"]).read_bytes()).hexdigest()
        return judged(name, kind, {"asked": tokens, "lock": lock})
    except Unavailable as error:
        return {"verdict": NOT_RUN, "reason": str(error)}


NOT_RUN = "not run"


@click.command()
@click.argument("names", nargs=-1)
@click.option("--tokens", type=click.IntRange(1), default=200_000, show_default=True)
@click.option("--check", is_flag=True, help="Compare with the record, write nothing.")
def main(names: Sequence[str], *, tokens: int, check: bool) -> None:
    """Judge whole engines, all or those named."""
    try:
        known, before = rows(), recorded()
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(f"no row is called {unknown[0]!r}: {', '.join(known)}")
    # Engines print their progress, and start as many threads as there are cores.
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    differing, missing = [], []
    for name in names or known:
        row, found = known[name], {}
        for kind in row["checkpoints"]:
            then = before.get(name, {}).get("checkpoints", {}).get(kind, {"verdict": NOT_RUN})
            now = found[kind] = found_now(name, row, kind, tokens)
            said = f"{name}, {kind}: " + ": ".join(
                now[key] for key in ("verdict", "reason") if key in now
            )
            if now["verdict"] == NOT_RUN and "skipped" not in row:
                missing.append(said)
                found[kind] = then if then["verdict"] != NOT_RUN else now
            elif check and now["verdict"] != then["verdict"]:
                differing.append(f"{said}, on record: {then['verdict']}")
            click.echo(said)
        if not check:
            record(name, row, found)
    for each in differing:
        click.echo(f"different: {each}", err=True)
    for each in missing:
        click.echo(f"the record stays as it is: {each}", err=True)
    sys.exit(1 if differing else 3 if missing else 0)


if __name__ == "__main__":
    main()
