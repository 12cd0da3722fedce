"""Check the theory: `make theory`, or `python -m theory` in the folder spec.

`python -m theory law PROGRAM INSTANCE` prints the law of a program on an instance; `python -m
theory read FILE ...` notes that a file was read beside the reference's modules; `python -m theory
harness` makes a harness of the programs, for `draftproof certify`, and prints where it is.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from theory.checking import JOBS, Missing, Refused, check, is_of_instances
from theory.correspondence import noted
from theory.evaluation import PROGRAMS, differences, instance_from_json, law_of, vectors_of
from theory.extraction import harness

_MISUSED = 2


def main(words: list[str]) -> int:
    """Do what the words ask, and return the exit code."""
    match words:
        case []:
            return _check()
        case ["law", program, instance]:
            return _law(program, instance)
        case ["read", *names] if names:
            return _read(names)
        case ["harness"]:
            return _harness()
    print(__doc__, file=sys.stderr)
    return _MISUSED


def _law(program: str, instance: str) -> int:
    if program not in PROGRAMS:
        print(f"no program is called {program!r}: {', '.join(PROGRAMS)}", file=sys.stderr)
        return _MISUSED
    try:
        document = json.loads(Path(instance).read_text(encoding="utf-8"))
        law = law_of(PROGRAMS[program], instance_from_json(document))
    except KeyError as error:
        print(f"{instance} is not an instance: it has no {error}", file=sys.stderr)
        return _MISUSED
    except (OSError, ValueError, LookupError, Refused) as error:
        print(f"{program} cannot be asked about {instance}: {error}", file=sys.stderr)
        return _MISUSED
    for (accepted, following), probability in sorted(law.items()):
        print(json.dumps([accepted, following, str(probability)]))
    return 0


def _read(names: list[str]) -> int:
    try:
        noted(names)
    except LookupError as error:
        print(error, file=sys.stderr)
        return _MISUSED
    return 0


def _harness() -> int:
    try:
        print(harness())
    except Refused as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _check() -> int:
    started = time.monotonic()
    try:
        found = check()
        for each in found:
            print(f"{each.file}.{each.name}: {each.rests_on}")
        instances = sum(is_of_instances(each.file) for each in found)
        print(f"{len(found) - instances} theorems and {instances} instances, no axiom")
        with ThreadPoolExecutor(JOBS) as workers:
            for told in workers.map(_compared, PROGRAMS):
                print(told)
    except Missing as error:
        print(error, file=sys.stderr)
        return 1
    except Refused as error:
        print(f"{error}\nThe theory is refused.", file=sys.stderr)
        return 1
    print(f"{time.monotonic() - started:.0f} seconds")
    return 0


def _compared(name: str) -> str:
    vectors = vectors_of(name)
    if wrong := differences(PROGRAMS[name], vectors):
        raise Refused("\n".join(wrong))
    return f"{name}: the laws of {len(vectors)} vectors, exactly"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
