"""Counterexample as a short script that needs only torch and the adapter.

The script asks the adapter for the failing rows many times, counts the emissions, and prints the
observed numbers beside the expected ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from draftproof.conformance.report.plain import plain
from draftproof.conformance.report.words import spoken
from draftproof.reference.drafting import require_drawable
from draftproof.reference.errors import InvalidInput
from draftproof.reference.model import Instance, Model, Path, instance_from_json
from draftproof.reference.rational import Rational

RUNS = 100_000
"""Number of runs of an adapter that takes batches."""

LOOPED_RUNS = 5_000
"""Number of runs of an adapter that is called in a loop."""

# Those of the protocol, which is in a module that needs torch.
_NOISE_LAWS = ("uniform", "exponential")

# Only what is most wrong is worth watching.
_MOST_TEXTS = 6

# What is less wrong than these teaches nothing more.
MOST_OUTCOMES = 20

# What is less than this off is rounding, and no part of a counterexample's story.
_VISIBLE = 1e-5

_WIDTH = 100

# The probabilities of a law are written as floats.
_ROUNDED = 1e-9

# A failure of this many expected occurrences stays away with probability exp(-20) = 2e-9.
_SURE = 20


AskedRow = tuple[Instance, list[Path]]
"""An instance, and the paths drafted from it."""

Text = tuple[Any, ...] | str
"""An emission: its tokens, the tokens of every row, or the words of a failure."""


class NotReproducible(ValueError):
    """Error of a certificate from which no script can be written; the message says why."""


class BrokenCounterexample(ValueError):
    """Error of a counterexample that contradicts itself; the message says where."""


def script(found: Mapping[str, Any], title: str) -> str:
    """Return the script that shows the counterexample of a certificate's `draftproof` part.

    Raises `NotReproducible` where the certificate lacks the needed data, and `BrokenCounterexample`
    where it contradicts itself.
    """
    shown = found["counterexample"]
    if shown is None:
        raise NotReproducible("the certificate has no counterexample")
    if "setting" in shown:
        raise NotReproducible("its counterexample needs other rows, tokens or calls around it")
    rows = asked_rows(shown)
    if len({(instance.length, len(paths), instance.branching) for instance, paths in rows}) > 1:
        raise NotReproducible(
            "the rows of its batch differ in their number of drafted tokens or paths, or in trees"
        )
    # A line's end in the title would begin a line of code.
    lines = [f"# {plain(title)}", *_body(found["adapter"], shown, rows)]
    # A row is as long as it is.
    fit = (line if len(line) <= _WIDTH else f"{line}  # noqa: E501" for line in lines)
    return "\n".join(fit) + "\n"


def raised_share(shown: Mapping[str, Any]) -> float:
    """Return the probability with which the verifier of a counterexample raises an error."""
    observed = shown["observed"] or ()
    return float(sum(entry["probability"] for entry in observed if _says(entry, "raised")))


def asked_rows(shown: Mapping[str, Any]) -> list[AskedRow]:
    """Return the rows of a counterexample: instances with the paths that were drafted.

    Raises `BrokenCounterexample`.
    """
    for name in ("observed", "expected"):
        mass = sum(entry["probability"] for entry in shown[name] or ())
        if shown[name] is not None and abs(mass - 1) > _ROUNDED:
            raise BrokenCounterexample(f"the {name} law of its counterexample sums to {mass}")
    return [_asked(row) for row in shown.get("rows", [shown])]


def _asked(row: Mapping[str, Any]) -> AskedRow:
    paths = [tuple(path) for path in row["draft"]]
    try:
        instance = instance_from_json(row["instance"])
        require_drawable(tuple(paths), instance)
    except InvalidInput as error:
        raise BrokenCounterexample(f"its counterexample: {error}") from None
    return instance, paths


def emitted(entry: Mapping[str, Any]) -> Text:
    """Return the emission in an entry of a law: its tokens, those of every row, or the failure.

    Tokens are enough to tell emissions apart: the accepted length is one less than their number,
    and the accepted tokens determine the path.
    """
    if "rows" in entry:
        return tuple(emitted(row) for row in entry["rows"])
    if "failure" in entry:
        return str(entry["failure"])
    return (*entry["accepted"], entry["next"])


# --- the lines ---------------------------------------------------------------------------


def _body(
    adapter: Mapping[str, Any], shown: Mapping[str, Any], rows: Sequence[AskedRow]
) -> Iterator[str]:
    raised = raised_share(shown)
    # A row that raises takes all others with it, and a batch is what it is.
    batched = adapter["batch"] and "rows" not in shown and not raised
    runs = ceil(_SURE / raised) if raised else RUNS if batched else LOOPED_RUNS
    yield from _found(adapter["place"])
    yield from _inputs(rows, runs)
    yield ""
    yield from _request(adapter, rows, " * runs" if batched else "")
    yield ""
    if batched:
        yield "result = verifier.verify(request())"
        columns = "(result.path, result.accepted_length, result.next_token)"
        yield from ("columns = [", "    torch.as_tensor(column).tolist()")
        yield from (f"    for column in {columns}", "]")
        yield from ("emitted = [", f"    {_text(shown)}")
        along = "zip(draft_tokens * runs, *columns, strict=True)"
        yield from (f"    for paths, path, accepted, token in {along}", "]")
    elif raised:
        yield "results = [verifier.verify(request()) for _ in range(runs)]"
        yield 'print("no error raised; the last result:", results[-1])'
        return
    else:
        yield "emitted = []"
        yield "for _ in range(runs):"
        yield "    result = verifier.verify(request())"
        columns = "result.path, result.accepted_length, result.next_token"
        yield f"    rows = zip(draft_tokens, {columns})"
        each = f"{_text(shown)} for paths, path, accepted, token in rows"
        if "rows" in shown:
            yield f"    emitted.append(tuple({each}))"
        else:
            yield f"    emitted += [{each}]"
    yield ""
    yield from _counting(shown)


def _found(place: str) -> Iterator[str]:
    """Yield the imports, and the lines that load the adapter."""
    where, _, attribute = place.rpartition(":")
    in_file = where.endswith(".py")
    yield from ("import runpy", "import sys") if in_file else ("import pkgutil",)
    yield from ("from types import SimpleNamespace", "", "import torch", "")
    if in_file:
        yield f"sys.path.append({json.dumps(where.rpartition('/')[0] or '.')})  # what it imports"
        yield f"adapter = runpy.run_path({json.dumps(where)})[{json.dumps(attribute)}]"
    else:
        yield f"adapter = pkgutil.resolve_name({json.dumps(place)})"
    yield "verifier = adapter() if isinstance(adapter, type) else adapter"
    yield ""


def _inputs(rows: Sequence[AskedRow], runs: int) -> Iterator[str]:
    """Yield the drafted tokens and the probabilities of both models, by request and path."""

    def written(which: str, extra: int) -> str:
        models = [(getattr(i, which), paths, i.length + extra) for i, paths in rows]
        return _list([_list([_along(m, path, n) for path in paths]) for m, paths, n in models])

    yield f"runs = {runs:_}"
    yield f"draft_tokens = {[[list(path) for path in paths] for _, paths in rows]}"
    yield f"draft_probs = {written('draft', 0)}"
    yield f"target_probs = {written('target', 1)}"


def _request(adapter: Mapping[str, Any], rows: Sequence[AskedRow], repeated: str) -> Iterator[str]:
    """Yield the function that makes a request, of the fields that the adapter may read."""
    on = "" if adapter["device"] == "cpu" else f", device={json.dumps(adapter['device'])}"
    kind = "" if adapter["dtype"] == "float32" else f", dtype=torch.{adapter['dtype']}"
    yield from ("", "def request():")
    yield f"    draft = torch.tensor(draft_probs{repeated}{kind}{on})"
    yield f"    target = torch.tensor(target_probs{repeated}{kind}{on})"
    yield "    return SimpleNamespace("
    yield f"        draft_tokens=torch.tensor(draft_tokens{repeated}{on}),"
    yield from ("        draft_probs=draft,", "        target_probs=target,")
    yield from ("        generator=None,", "        lengths=None,")
    if adapter["logits"]:
        yield from ("        draft_logits=draft.log(),", "        target_logits=target.log(),")
    if adapter["trees"]:
        yield f"        branching={rows[0][0].branching or None},"
    if adapter.get("noise"):
        noise = [f"{json.dumps(name)}: {_noise(form)}" for name, form in adapter["noise"].items()]
        yield f"        noise={{{', '.join(noise)}}},"
    yield from ("    )", "")


def _noise(form: Sequence[Any]) -> str:
    law, *sides = form
    known = {"K": "draft.shape[1]", "L": "draft.shape[2]", "V": "draft.shape[3]"}
    odd = [side for side in sides if side not in known and type(side) is not int]
    if law not in _NOISE_LAWS or odd:
        raise BrokenCounterexample(
            f"its adapter's noise is {', '.join(_NOISE_LAWS)}, then sides K, L, V or whole "
            f"numbers, got {list(form)!r}"
        )
    shape = ", ".join(["len(draft)", *(known.get(side, str(side)) for side in sides)])
    return f"torch.empty({shape}, device=draft.device).{law}_()"


def _text(shown: Mapping[str, Any]) -> str:
    """Return the script's expression for one emission: its tokens, or the raw result."""
    if any(_says(entry, "returned") for entry in shown["observed"]):
        return "(float(path), float(accepted), float(token))"
    return "(*paths[int(path)][: int(accepted)], int(token))"


def _counting(shown: Mapping[str, Any]) -> Iterator[str]:
    if any(_says(entry, "returned") for entry in shown["observed"]):
        yield "for each in sorted(set(emitted)):"
        yield '    print("path, accepted length, next token:", each, emitted.count(each) / runs)'
        return
    gaps = compared(shown)
    exact = "exactly" if shown["expected"] is None else "should be"
    wanted = [f"{text!r}: {o if shown['expected'] is None else e:.6g}" for text, o, e in gaps]
    name = "observed" if shown["expected"] is None else "expected"
    yield f"{name} = {{{', '.join(wanted[:_MOST_TEXTS])}}}"
    yield f"for tokens, probability in {name}.items():"
    yield f'    print(tokens, emitted.count(tokens) / runs, "{exact}", probability)'


def compared(shown: Mapping[str, Any]) -> list[tuple[Text, float, float]]:
    """Return every outcome with its observed and expected probability, largest error first.

    Without an expected law, the most probable outcomes come first, with an expected value of 0.
    """
    observed = {emitted(entry): entry["probability"] for entry in shown["observed"]}
    expected = {emitted(entry): entry["probability"] for entry in shown["expected"] or ()}
    outcomes = [(o, observed.get(o, 0), expected.get(o, 0)) for o in {**observed, **expected}]
    return sorted(outcomes, key=lambda each: abs(each[1] - each[2]), reverse=True)


@dataclass(frozen=True)
class Outcome:
    """A possible emission in words, and its probability; None for an unknown probability."""

    spoken: str
    observed: float
    expected: float | None
    is_wrong: bool
    """True where the probability is off by more than rounding."""


def outcomes(shown: Mapping[str, Any]) -> tuple[list[Outcome], int]:
    """Return the outcomes with the largest errors of a counterexample, and the number of others."""
    known = shown["expected"] is not None
    found = [
        Outcome(
            spoken(text),
            observed,
            expected if known else None,
            is_wrong=known and abs(observed - expected) > _VISIBLE,
        )
        for text, observed, expected in compared(shown)
    ]
    return found[:MOST_OUTCOMES], max(len(found) - MOST_OUTCOMES, 0)


def _says(entry: Mapping[str, Any], what: str) -> bool:
    """Return True if an outcome, or the outcome of one of its rows, is a failure of the kind."""
    return any(row.get("failure", "").startswith(what) for row in entry.get("rows", [entry]))


def _along(model: Model, path: Path, depth: int) -> str:
    """Return the rows along a path, in Python's notation."""
    return _list([_list([_number(w) for w in model(path[:i])]) for i in range(depth)])


def _list(items: Sequence[str]) -> str:
    """Return a list in Python's notation, in short form where all items are equal."""
    alike = len(items) > 1 and len(set(items)) == 1 and len(items[0]) > 4
    return f"[{items[0]}] * {len(items)}" if alike else f"[{', '.join(items)}]"


def _number(weight: Rational) -> str:
    """Return a weight as a float or a quotient, to the last digit."""
    numerator, denominator = int(weight.numerator), int(weight.denominator)
    # Quotients of numbers that floats hold are rounded once.
    if denominator & (denominator - 1) == 0:
        return repr(numerator / denominator)
    return f"{numerator} / {denominator}"
