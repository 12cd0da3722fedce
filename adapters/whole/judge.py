"""Whole engines of the world, judged by what they write: `make engines`.

    python adapters/whole/judge.py [--tokens N] [--check] [ROW...]

makes an environment for each engine in `.venv-engines` from a lock with all hashes, checkpoints of
memory 1 and 2, and judges every row of `rows.toml` on both. What is done is not done again: a row
whose certificate is there is read, one that was killed goes on. A row that cannot run is recorded
with the reason. The record is `record.json`; `--check` compares the verdicts with it instead of
writing it, and exits with 1 where one is different.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
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
    """An engine cannot be had here; the message says why."""


def environment(name: str) -> None:
    """Make the environment of an engine, unless it is there. Raises `Unavailable`."""
    folder, script = ENVIRONMENTS / name, HERE / "locks" / f"{name}.sh"
    lock = script if script.exists() else script.with_suffix(".txt")
    done = folder / "done"
    if done.exists() and done.read_bytes() == lock.read_bytes():
        return
    shutil.rmtree(folder, ignore_errors=True)
    if lock == script:
        ran(["bash", str(script), str(folder)], script.name)
    else:
        ran([sys.executable, "-m", "venv", str(folder)], "venv")
        pip = (str(folder / "bin" / "pip"), "install", "--quiet", "--require-hashes", "--no-deps")
        if "torch==" in lock.with_suffix(".in").read_text("utf-8"):
            torch = ("--requirement", str(LOCKS / "torch.txt"))
            ran([*pip, *torch, "--index-url", "https://download.pytorch.org/whl/cpu"], "pip")
        ran([*pip, "--requirement", str(lock)], "pip")
    shutil.copyfile(lock, done)


def ran(command: Sequence[str], name: str) -> None:
    """Run a command. Raises `Unavailable` with its last line."""
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        last = found.stderr.strip().splitlines()[-1:] or [f"exit code {found.returncode}"]
        raise Unavailable(f"{name}: {last[0][:200]}")


def checkpoint(kind: str) -> Path:
    """Write a checkpoint, unless it is there."""
    folder = ENVIRONMENTS / "checkpoints" / kind
    if not (folder / "rows.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        ran([*DRAFTPROOF, "checkpoint", str(folder), *CHECKPOINTS[kind]], "draftproof checkpoint")
    return folder


DRAFTPROOF = (sys.executable, "-c", "from draftproof.conformance.cli import main; main()")


def judged(name: str, kind: str, tokens: int) -> dict[str, Any]:
    """Return what is recorded of a row on a checkpoint, after judging it. Raises `Unavailable`."""
    out = CERTIFICATES / kind
    path = out / f"{name.replace('_', '-')}.json"
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
    return told(json.loads(path.read_text("utf-8")), tokens)


MALFORMED = 5
"""The exit code where evidence cannot go on."""


def asked(command: Sequence[str]) -> tuple[int, str]:
    """Return the exit code of Draftproof, and its error."""
    found = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
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
    """Return what is on record."""
    found: dict[str, Any] = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    return found


@click.command()
@click.argument("names", nargs=-1)
@click.option("--tokens", type=click.IntRange(1), default=200_000, show_default=True)
@click.option("--check", is_flag=True, help="Compare with the record, write nothing.")
def main(names: Sequence[str], *, tokens: int, check: bool) -> None:
    """Judge whole engines, all or those named."""
    known = rows()
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(f"no row is called {unknown[0]!r}: {', '.join(known)}")
    # Engines print their progress, and start as many threads as there are cores.
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    differing = []
    for name in names or known:
        row, found, record = known[name], {}, recorded()
        for kind in row["checkpoints"]:
            try:
                if "skipped" in row:
                    raise Unavailable(row["skipped"])
                environment(row["environment"])
                found[kind] = judged(name, kind, tokens)
                verdict = found[kind]["verdict"]
            except Unavailable as error:
                found[kind] = {"verdict": "not run", "reason": str(error)}
                verdict = f"not run: {error}"
            click.echo(f"{name}, {kind}: {verdict}")
            then = record.get(name, {}).get("checkpoints", {}).get(kind, {}).get("verdict")
            if check and found[kind]["verdict"] not in (then, "not run"):
                differing.append(f"{name}, {kind}: {verdict}, on record {then}")
        if not check:
            described = {key: row[key] for key in ("engine", "method")}
            today = datetime.now(UTC).date().isoformat()
            # Another run may have judged another row meanwhile, one that was not known here.
            record = recorded()
            record[name] = {**described, "judged": today, "checkpoints": found}
            kept = {key: record[key] for key in rows() if key in record}
            RECORD.write_text(f"{json.dumps(kept, indent=2)}\n", encoding="utf-8")
    for each in differing:
        click.echo(each, err=True)
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
