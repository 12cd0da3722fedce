"""Harnesses in miniature, one right and others that do one thing wrong: `miniature.py NAME`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Message = dict[str, Any]

DECLARATION: Message = {
    "protocol": 1,
    "name": "miniature",
    "version": "1.0",
    "algorithm": "token",
    "tensors": "numbers",
    "dtype": "float64",
    "noise": {"coins": ["uniform", "L"], "token": ["uniform"]},
}


def verified(asked: Message) -> Message:
    emitted = [emission(asked, row) for row in range(asked["rows"])]
    return {
        "sequence": asked["sequence"],
        "accepted_length": [accepted for accepted, _ in emitted],
        "path": [0] * asked["rows"],
        "next_token": [token for _, token in emitted],
    }


def emission(asked: Message, row: int) -> tuple[int, int]:
    path, q, p = (asked[f][row][0] for f in ("draft_tokens", "draft_probs", "target_probs"))
    coins, u = asked["noise"]["coins"][row], asked["noise"]["token"][row]
    accepted = 0
    for i, token in enumerate(path):
        if coins[i] >= p[i][token] / q[i][token]:
            break
        accepted += 1
    excess = p[accepted]
    if accepted < len(path):
        pairs = zip(p[accepted], q[accepted], strict=True)
        excess = [max(wanted - given, 0.0) for wanted, given in pairs]
    return accepted, drawn(excess if any(excess) else p[accepted], u)


def drawn(weights: list[float], u: float) -> int:
    mark, running = u * sum(weights), 0.0
    for token, weight in enumerate(weights):
        running += weight
        if running > mark:
            return token
    return max(token for token, weight in enumerate(weights) if weight > 0)


def say(kind: str, body: Message) -> None:
    print(json.dumps({kind: body}), flush=True)


def serve(
    declaration: Message = DECLARATION,
    verify: Callable[[Message], Message | None] = verified,
    lines: Iterable[str] = sys.stdin,
) -> None:
    """Answer until it is told to stop. `verify` returns None where it has answered by itself."""
    for line in lines:
        ((kind, body),) = json.loads(line).items()
        if kind == "stop":
            return
        if kind == "start":
            say("declaration", declaration)
        else:
            answer(verify, body)


def answer(verify: Callable[[Message], Message | None], asked: Message) -> None:
    try:
        result = verify(asked)
    except (ArithmeticError, LookupError, TypeError) as error:
        # Invalid input is asked of everybody, and is no reason to die.
        say("error", {"sequence": asked["sequence"], "message": repr(error)})
    else:
        if result is not None:
            say("result", result)


HOURS = 3600


def raw(text: str) -> Callable[[Message], None]:
    """Return a verifier that answers with this text."""

    def verify(asked: Message) -> None:
        print(text.replace("SEQUENCE", str(asked["sequence"])), flush=True)

    return verify


def changed(**change: object) -> Callable[[Message], Message]:
    """Return a verifier whose right results are changed; None takes a key away."""

    def verify(asked: Message) -> Message:
        result = {**verified(asked), **change}
        return {key: value for key, value in result.items() if value is not None}

    return verify


def declaring(**change: object) -> None:
    declared = {**DECLARATION, **change}
    serve({key: value for key, value in declared.items() if value is not None})


# --- what is right -------------------------------------------------------------------------


def right() -> None:
    serve()


def records() -> None:
    """Write all that it is told into a file, and declare what else is to be declared."""
    file, declared = Path(sys.argv[2]), json.loads(sys.argv[3])

    def recorded() -> Iterable[str]:
        for line in sys.stdin:
            with file.open("a", encoding="utf-8") as record:
                record.write(line)
            yield line

    def verify(asked: Message) -> Message:
        nothing = [0] * asked["rows"]
        columns = {"accepted_length": nothing, "path": nothing, "next_token": nothing}
        return {"sequence": asked["sequence"], **columns}

    serve({**DECLARATION, **declared}, verify, recorded())


# --- at the start --------------------------------------------------------------------------


def dies_at_start() -> None:
    print("no licence found\nfor this machine", file=sys.stderr)
    sys.exit(3)


def steers_at_start() -> None:
    print("\x1b[2J\u202eno licence\x07", file=sys.stderr)
    sys.exit(3)


def hangs_at_start() -> None:
    time.sleep(HOURS)


def banner() -> None:
    print("Miniature 1.0, all rights reserved", flush=True)
    serve()


def other_protocol() -> None:
    declaring(protocol=2)


def branch() -> None:
    declaring(version="main")


def stateful() -> None:
    declaring(algorithm="greedy_block")


def no_name() -> None:
    declaring(name=None)


def unprintable_name() -> None:
    declaring(name="mini\nature")


def odd_noise() -> None:
    declaring(noise={"coins": ["gaussian", "L"]})


def result_at_start() -> None:
    sys.stdin.readline()
    say("result", {"sequence": 1, "accepted_length": [0], "path": [0], "next_token": [0]})
    time.sleep(HOURS)


# --- at a request --------------------------------------------------------------------------


def dies() -> None:
    def verify(asked: Message) -> None:
        print("out of memory", file=sys.stderr)
        sys.exit(7)

    serve(verify=verify)


def is_killed() -> None:
    serve(verify=lambda _: os.kill(os.getpid(), signal.SIGKILL))


def dies_in_a_line() -> None:
    def verify(asked: Message) -> None:
        sys.stdout.write('{"result": {"sequence"')
        sys.stdout.flush()
        sys.exit(0)

    serve(verify=verify)


def hangs() -> None:
    serve(verify=lambda _: time.sleep(HOURS))


def hangs_in_a_line() -> None:
    def verify(asked: Message) -> None:
        sys.stdout.write('{"result": ')
        sys.stdout.flush()
        time.sleep(HOURS)

    serve(verify=verify)


def closes_stdout() -> None:
    def verify(asked: Message) -> None:
        os.close(1)
        time.sleep(HOURS)

    serve(verify=verify)


def never_reads() -> None:
    sys.stdin.readline()
    say("declaration", DECLARATION)
    time.sleep(HOURS)


def answers_unread() -> None:
    os.read(0, 2**16)
    say("declaration", DECLARATION)
    os.read(0, 1)
    say("result", {"sequence": 1, "accepted_length": [0], "path": [0], "next_token": [0]})
    time.sleep(HOURS)


def floods() -> None:
    def verify(asked: Message) -> None:
        while True:
            sys.stdout.write("x" * 2**16)

    serve(verify=verify)


def floods_lines() -> None:
    def verify(asked: Message) -> None:
        while True:
            say("result", verified(asked))

    serve(verify=verify)


def floods_stderr() -> None:
    def verify(asked: Message) -> Message:
        for _ in range(64):
            sys.stderr.write("y" * 2**16 + "\n")
        return verified(asked)

    serve(verify=verify)


def floods_stderr_for_ever() -> None:
    def verify(asked: Message) -> None:
        while True:
            sys.stderr.write("y" * 99 + "\n")

    serve(verify=verify)


def out_of_order() -> None:
    serve(verify=lambda asked: {**verified(asked), "sequence": asked["sequence"] + 1})


def twice() -> None:
    def verify(asked: Message) -> Message:
        say("result", verified(asked))
        time.sleep(0.1)  # so that the first is taken for the answer
        return verified(asked)

    serve(verify=verify)


def too_few() -> None:
    serve(verify=changed(next_token=[]))


def too_many() -> None:
    serve(verify=lambda asked: {**verified(asked), "path": [0] * (asked["rows"] + 1)})


def words() -> None:
    serve(verify=lambda asked: {**verified(asked), "path": ["0"] * asked["rows"]})


def booleans() -> None:
    serve(verify=lambda asked: {**verified(asked), "path": [False] * asked["rows"]})


def nulls() -> None:
    serve(verify=lambda asked: {**verified(asked), "path": [None] * asked["rows"]})


def nested() -> None:
    serve(verify=lambda asked: {**verified(asked), "path": [[0]] * asked["rows"]})


def huge() -> None:
    serve(verify=lambda asked: {**verified(asked), "next_token": [2**63] * asked["rows"]})


def floats() -> None:
    serve(verify=lambda asked: {**verified(asked), "path": [0.0] * asked["rows"]})


def not_a_number() -> None:
    serve(verify=lambda asked: {**verified(asked), "path": [float("nan")] * asked["rows"]})


def missing() -> None:
    serve(verify=changed(path=None))


def surplus() -> None:
    serve(verify=changed(certainty=1))


def other_kind() -> None:
    def verify(asked: Message) -> None:
        say("declaration", DECLARATION)

    serve(verify=verify)


def unknown_kind() -> None:
    def verify(asked: Message) -> None:
        say("answer", verified(asked))

    serve(verify=verify)


def not_json() -> None:
    serve(verify=raw("accepted 2, next token 0"))


def not_an_object() -> None:
    serve(verify=raw("[1, 2]"))


def empty_line() -> None:
    serve(verify=raw(""))


def same_key() -> None:
    serve(verify=raw('{"error": {"sequence": SEQUENCE, "message": "a", "message": "b"}}'))


def deep() -> None:
    serve(verify=raw("[" * 30_000))


def not_utf8() -> None:
    def verify(asked: Message) -> None:
        os.write(1, b'{"error": {"sequence": 1, "message": "\xff\xfe"}}\n')

    serve(verify=verify)


def utf16() -> None:
    def verify(asked: Message) -> None:
        os.write(1, json.dumps({"result": verified(asked)}).encode("utf-16") + b"\n")

    serve(verify=verify)


# --- at the end ----------------------------------------------------------------------------


def _leave_a_child() -> None:
    # It keeps the pipes of its parent open, and writes into one that shows whether it lives.
    staying = (
        "import sys, time; f = open(sys.argv[1], 'w'); print(file=f, flush=True); time.sleep(3600)"
    )
    child = subprocess.Popen([sys.executable, "-c", staying, sys.argv[2]])
    child.returncode = 0  # nobody waits for it


def leaves_a_child() -> None:
    _leave_a_child()
    serve()


def leaves_a_child_and_dies() -> None:
    _leave_a_child()
    dies()


def ignores_stop() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve()
    time.sleep(HOURS)


# --- what is an outcome --------------------------------------------------------------------


def refuses() -> None:
    def verify(asked: Message) -> None:
        say("error", {"sequence": asked["sequence"], "message": "row 0 is not mine"})

    serve(verify=verify)


def biased() -> None:
    def verify(asked: Message) -> Message:
        # Coins that are larger than they should be: too few tokens are accepted.
        coins = [[coin * 1.25 for coin in row] for row in asked["noise"]["coins"]]
        return verified({**asked, "noise": {**asked["noise"], "coins": coins}})

    serve(verify=verify)


def negative() -> None:
    serve(verify=lambda asked: {**verified(asked), "next_token": [-1] * asked["rows"]})


if __name__ == "__main__":
    globals()[sys.argv[1]]()
