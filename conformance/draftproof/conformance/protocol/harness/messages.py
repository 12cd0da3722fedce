"""Messages between Draftproof and a harness: requests as JSON, and checked answers.

The schema `harness` defines the messages; this module checks what a schema cannot express, such as
the number of values for a number of rows.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from textwrap import shorten
from typing import Any, NoReturn

import numpy
import orjson
import torch
from torch import Tensor

from draftproof.conformance.protocol.adapter import Request
from draftproof.reference.verifiers import ALGORITHMS
from draftproof.spec import MalformedDocument, validate

PROTOCOL = 1
"""Version of the protocol."""

COLUMNS = ("accepted_length", "path", "next_token")
"""Columns of a result, each with a number for every row."""

LARGEST_DECLARATION = 2**15
"""Maximum size of a declaration in bytes; declarations need a tenth of that."""


def largest_answer(rows: int) -> int:
    """Return the maximum size in bytes of an answer for a number of rows.

    An error has up to 2,000 characters, each escaped in 12 bytes at most, and its keys: below
    2**15. A row has three integers of at most 20 digits, and as many bytes again for separators.
    """
    return 2**15 + rows * 3 * 40


class Breach(Exception):
    """Breach of the protocol by a harness; the message follows 'the harness'."""


# --- what is asked ------------------------------------------------------------------------------

_TENSORS = (
    "draft_tokens",
    "draft_probs",
    "target_probs",
    "lengths",
    "draft_logits",
    "target_logits",
)


def line(kind: str, body: dict[str, Any]) -> bytes:
    """Return a message as a line of ASCII, including its end."""
    return orjson.dumps({kind: body}, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)


def asked(request: Request, form: str) -> dict[str, Any]:
    """Return a request as the body of a `verify`, without its number.

    Tensors take the form "numbers" or "base64". If there is no noise, a seed is drawn from the
    request's generator.
    """
    written = _as_bytes if form == "base64" else _as_numbers
    rows, drafts, length = request.draft_tokens.shape
    tensors = {name: getattr(request, name) for name in _TENSORS}
    body: dict[str, Any] = {
        "rows": rows,
        "drafts": drafts,
        "length": length,
        "vocabulary": request.draft_probs.shape[-1],
        **({} if request.branching is None else {"branching": list(request.branching)}),
        **{name: written(each) for name, each in tensors.items() if each is not None},
    }
    if request.noise is not None:
        return {**body, "noise": {name: written(each) for name, each in request.noise.items()}}
    # Below 2**53 integers are exact in readers of JSON for which all numbers are doubles. What is
    # made of a seed can only be sampled: no lane tries to feed a range as wide as this.
    seed = torch.randint(2**63 - 1, (1,), generator=request.generator) >> 10
    return {**body, "seed": seed.numpy().tolist()[0]}


def _as_numbers(tensor: Tensor) -> Any:
    """Return nested lists in their written form, every float of every dtype as the equal double."""
    plain = tensor.detach().cpu()
    # At `numpy`, a lane that follows noise is told that it leaves torch here.
    array = (plain.double() if plain.is_floating_point() else plain).numpy()
    is_finite = numpy.isfinite(array).all()
    return numpy.ascontiguousarray(array) if is_finite else _spelled(array.tolist())


def _spelled(values: Any) -> Any:
    """Return the values, with strings for numbers that JSON cannot express."""
    if isinstance(values, list):
        return [_spelled(each) for each in values]
    if numpy.isfinite(values):
        return values
    return "NaN" if numpy.isnan(values) else "Infinity" if values > 0 else "-Infinity"


def _as_bytes(tensor: Tensor) -> dict[str, Any]:
    """Return a tensor's little-endian bytes in base64, with its dtype and shape."""
    plain = tensor.detach().cpu().contiguous()
    # numpy has no bfloat16, but its bits.
    array = (plain.view(torch.int16) if plain.dtype is torch.bfloat16 else plain).numpy()
    data = b64encode(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "data": data.decode("ascii"),
    }


# --- what is answered ---------------------------------------------------------------------------

# Names of branches, not of what is on them today.
_BRANCHES = ("main", "master", "trunk")


def declaration(heard: bytes) -> dict[str, Any]:
    """Return the declaration of a harness, unchanged. Raises `Breach`."""
    message = _parsed(heard)
    _require_kind(message, "declaration")
    body: dict[str, Any] = message["declaration"]
    if body["protocol"] != PROTOCOL:
        raise Breach(
            f"speaks version {body['protocol']} of the protocol: it must speak version {PROTOCOL}"
        )
    if body["version"] in _BRANCHES:
        raise Breach(
            f"declares the version {body['version']!r}, which is a branch: it must be a release or "
            f"a commit, so that the certificate says what was judged"
        )
    algorithm = ALGORITHMS.get(body["algorithm"])
    if algorithm is not None and algorithm.stateful:
        raise Breach(
            f"declares the algorithm {algorithm.name!r}, which leaves a state for the next "
            f"iteration: the protocol has no place for one, an adapter in Python has"
        )
    return body


def answer(heard: bytes, sequence: int, rows: int) -> tuple[str, dict[str, Any]]:
    """Return the kind of the answer to a request, "result" or "error", and its body.

    Raises `Breach`.
    """
    message = _parsed(heard)
    if not _is_plain_result(message):
        _require_kind(message, "result", "error")
    ((kind, body),) = message.items()
    if body["sequence"] != sequence:
        raise Breach(
            f"answers request {body['sequence']} where {sequence} was asked: it must answer every "
            f"request once, in order, with the request's own number"
        )
    for column in COLUMNS if kind == "result" else ():
        if len(body[column]) != rows:
            raise Breach(
                f"answers with {len(body[column])} numbers in {column!r}: it must give one for "
                f"each of the {rows} rows"
            )
    return kind, body


def _is_plain_result(message: Any) -> bool:
    """Return True for a plain result, without the slower check against the schema."""
    body = message.get("result") if isinstance(message, dict) and len(message) == 1 else None
    if not isinstance(body, dict) or body.keys() != {"sequence", *COLUMNS}:
        return False
    columns = [body[each] for each in COLUMNS]
    is_numbered = type(body["sequence"]) is int and body["sequence"] > 0
    return is_numbered and all(
        type(column) is list
        and set(map(type, column)) == {int}
        and min(column) >= 0
        and max(column) < 2**63
        for column in columns
    )


def _parsed(heard: bytes) -> Any:
    """Return the JSON value of a line, in which all numbers are whole. Raises `Breach`."""
    try:
        return json.loads(
            heard.decode("utf-8"),
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
            object_pairs_hook=_without_duplicates,
        )
    except UnicodeDecodeError as error:
        raise Breach(f"says {quoted(heard)}, which is not UTF-8: {error.reason}") from None
    except (ValueError, RecursionError) as error:
        raise Breach(
            f"says {quoted(heard)}, which is not JSON: {error}; only messages belong on stdout, "
            f"what is printed for people on stderr"
        ) from None


def _refuse_number(number: str) -> NoReturn:
    raise Breach(f"answers with the number {number}: it must answer with integers, without a point")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        times = Counter(name for name, _ in pairs)
        twice = next(name for name, count in times.items() if count > 1)
        raise Breach(f"answers with the key {twice!r} twice: it must give every key once")
    return found


def _require_kind(message: Any, *wanted: str) -> None:
    """Raise `Breach` unless the message follows the schema, and has the wanted kind."""
    try:
        validate(message, "harness")
    except MalformedDocument as error:
        raise Breach(f"breaks the protocol's schema: {shorten(str(error), 300)}") from None
    (kind,) = message
    if kind not in wanted:
        raise Breach(f"answers with {kind!r}: it must answer with {' or '.join(map(repr, wanted))}")


def quoted(said: bytes) -> str:
    """Return the beginning of a harness's output, in quotes."""
    most = 80
    return repr(said[:most].decode("utf-8", "replace")) + (" ..." if len(said) > most else "")
