"""Reports on a terminal: tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain
from itertools import count as counting
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import IO, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from draftproof.conformance.report import words
from draftproof.conformance.report.bars import bars, drawn
from draftproof.conformance.report.plain import plain, plain_lines

_OPTIMA = {
    "acceptance_rate": "largest acceptance rate",
    "stateless": "largest E\\[accepted length] of a stateless verifier",
    "stateful": "largest E\\[accepted length] of a stateful verifier",
}

_VERDICTS = {
    "mechanised": "[green]mechanised[/]",
    "proved for a shape": "[green]proved for a shape[/]",
    "argued": "[yellow]argued[/]",
    "holds": "[yellow]holds[/] on {examined}",
    "refuted": "[red]refuted[/]",
}

_STYLE = {"pass": "green", "fail": "bold red", "inconclusive": "yellow", "error": "bold red"}

_CONCLUSION_STYLE = {words.CONFORMS: "green", words.PASSES_SOME: "yellow"}

# A file or a pipe has no width: lines are as long as they need to be.
_PLAIN_WIDTH = 200

# A longer fraction says less than its decimals.
_READABLE = 24

# Wider bars are no easier to read.
_BARS_WIDTH = 80

# Below this many columns a table keeps to what decides.
_NARROW = 90


class _Console(Console):
    def render_str(self, text: str, **options: Any) -> Text:
        # All that is printed comes through here, cells of tables too.
        made = super().render_str(text, **options)
        shown = plain_lines(made.plain)
        if shown != made.plain:
            made.plain = shown
        return made

    def on_broken_pipe(self) -> None:
        # Rich would exit with 1, which is a verdict.
        raise BrokenPipeError


def console(*, stderr: bool = False, file: IO[str] | None = None) -> Console:
    """Return a console: coloured on a terminal, plain and unwrapped elsewhere, as in a `file`."""
    made = _Console(stderr=stderr, file=file, highlight=False, emoji=False)
    if not made.is_terminal:
        made.width = _PLAIN_WIDTH
    return made


def shown_progress(
    steps: Iterable[Any], count: int, title: str, names: Sequence[str] = (), /
) -> Iterator[Any]:
    """Iterate with a progress bar on the error stream; `names` of the steps are shown with it.

    Where that is no terminal, a line is printed after ten seconds and then every minute, also
    during a step.
    """
    errors, done = console(stderr=True), 0

    def at(before: str = "") -> str:
        return f"{before}{names[done]}" if done < len(names) else ""

    if not errors.is_terminal:
        with _told_sparingly(
            errors, lambda since: f"{title}: {done} of {count} after {since}{at(', at ')}"
        ):
            for step in steps:
                done += 1
                yield step
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[at]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
    )
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(escape(title), total=count, at=escape(at()))
        for step in steps:
            done += 1
            bar.update(task, completed=done, at=escape(at()))
            yield step


@contextmanager
def shown_status(title: str) -> Iterator[Callable[[str], None]]:
    """Show what a long step is doing on the error stream; yields a function that adds a detail.

    Where that is no terminal, a line is printed after ten seconds and then every minute.
    """
    errors, said = console(stderr=True), title
    if errors.is_terminal:
        with errors.status(escape(title)) as status:
            yield lambda detail: status.update(escape(f"{title}: {detail}"))
        return

    def tell(detail: str) -> None:
        nonlocal said
        said = f"{title}: {detail}"

    with _told_sparingly(errors, lambda since: f"{said} after {since}"):
        yield tell


@contextmanager
def _told_sparingly(out: Console, told: Callable[[str], str]) -> Iterator[None]:
    """Print what is `told`, given the time since the start, after ten seconds and every minute.

    A thread prints, since a step can take long. It writes text alone: lanes watch this process.
    """
    is_over, begin = Event(), monotonic()

    def tell() -> None:
        for due in _due():
            if is_over.wait(begin + due - monotonic()):
                return
            since = f"{due // 60} min" if due >= 60 else f"{due} s"
            out.file.write(f"{plain_lines(told(since))}\n")
            out.file.flush()

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _due() -> Iterator[int]:
    """Yield the seconds after which a line is printed: ten, then every minute."""
    return chain([10], counting(60, 60))


def print_certificate(
    out: Console, document: Mapping[str, Any], path: Path, *, verbose: bool = False
) -> None:
    """Print a certificate: verdict, likely cause, counterexample and failed requirements.

    Requirements that do not fail are counted; `verbose` prints a row for each.
    """
    document = plain(document)
    found = document["predicate"]["draftproof"]
    decisions = found["requirements"]
    name, version = (escape(found["adapter"][key]) for key in ("name", "version"))
    style = _CONCLUSION_STYLE.get(found["verdict"], "bold red")
    count = words.failing(decisions)
    told = escape(words.conclusion(found) + (f": {count}" if count else ""))
    _say(out, f"[bold]{name}[/] [{style}]{told}[/]")
    _say(out, f"version {version}, {escape(words.terms(found))}")
    if cause := [*words.likely_cause(found)]:
        out.print("\n[bold]Likely cause[/]")
        print_lines(out, cause)
    if found["counterexample"] is not None:
        print_counterexample(out, found["counterexample"])
        out.print("\n[bold]Script that reproduces it[/]")
        shown = f"draftproof explain {shlex.quote(plain(str(path)))} --script reproduce.py"
        out.print(f"  {escape(shown)}", soft_wrap=True)
    _print_missed(out, found)
    if verbose:
        _print_requirements(out, found)
    elif folded := words.folded(decisions):
        _say(out, f"\n{escape(folded)}; -v lists them")
    for sentence in words.sentences(found):
        _say(out, escape(sentence))
    out.print(f"certificate: {escape(plain(str(path)))}\n", soft_wrap=True)


def print_counterexample(out: Console, shown: Mapping[str, Any]) -> None:
    """Print the outcome that differs most as two bars, and the story of a counterexample."""
    out.print("\n[bold]The smallest counterexample found[/]")
    if found := bars(shown):
        print_lines(out, [f"{found.outcome}: probability"])
        width = min(out.width, _BARS_WIDTH)
        for line in drawn(found, width=width, ascii_only=not out.encoding.startswith("utf")):
            out.print(escape(line), soft_wrap=True)
    print_lines(out, shown["words"])


def print_lines(out: Console, lines: Iterable[str]) -> None:
    """Print indented lines, which a terminal wraps and a file keeps whole."""
    for line in lines:
        told = Padding(escape(line), (0, 0, 0, 2)) if out.is_terminal else f"  {escape(line)}"
        out.print(told, soft_wrap=not out.is_terminal)


def _say(out: Console, text: str) -> None:
    out.print(text, soft_wrap=not out.is_terminal)


def _print_missed(out: Console, found: Mapping[str, Any]) -> None:
    """Print the requirements that failed, grouped by reason, and the known failures."""
    groups = words.groups(found["requirements"])
    if groups:
        out.print(f"\n[bold]{words.groups_title(found['requirements'])}[/]")
    for group in groups:
        ids = ", ".join(each["id"] for each in group.decisions)
        first = group.decisions[0]
        if len(group.decisions) > 1:
            count = f"{len(group.decisions)} requirements fail for the same reason"
            print_lines(out, [f"{count}, a {group.reason}: {ids}"])
        else:
            print_lines(out, [f"{ids}: {words.leveled(first)}: {group.reason}"])
    for known in found["known_failures"]:
        print_lines(out, [f"{known['id']} is a known failure: {known['issue']}"])


def _print_requirements(out: Console, found: Mapping[str, Any]) -> None:
    """Print a row for every requirement, and the reasons."""
    out.print("\n[bold]All requirements[/]")
    narrow = out.width < _NARROW
    columns = ["requirement", "verdict", "observed", "allowed"]
    table = ruled(out, *columns, *(() if narrow else ("lane", "runs", "worst case")))
    for decision in found["requirements"]:
        worst = decision["worst"]
        cells = [escape(decision["id"]), _verdict(decision), *words.distances(worst)]
        if not narrow:
            cells += [words.lane(worst["lane"]), str(decision["runs"] or "")]
            cells.append(escape(worst["case"]) if worst["lane"] else "")
        table.add_row(*cells)
    out.print(table)
    for reason, ids in words.reasons(found["requirements"]).items():
        _say(out, escape(f"{', '.join(ids)}: {reason}"))


def print_law(out: Console, document: Mapping[str, Any]) -> None:
    """Print the law of one iteration's emission, given as the document that --json prints."""
    out.print(
        f"{escape(document['algorithm'])} verification: "
        f"E\\[accepted length] = {document['expected_accepted']}, {_lossless(document['lossless'])}"
    )
    if wrong := document.get("wrong"):
        text = ", ".join(map(str, wrong["text"]))
        out.print(
            f"the text ({text}) has probability {wrong['probability']}, "
            f"required is {wrong['required']}"
        )
    if process := document.get("process"):
        out.print(
            f"over several iterations, the first {process['tokens']} tokens: "
            f"{_lossless(process['lossless'])}"
        )
    table = ruled(out, "path", "accepted", "next token", "probability")
    for row in document["law"]:
        accepted = ",".join(map(str, row["accepted"])) or "-"
        table.add_row(str(row["path"]), accepted, str(row["next"]), row["probability"])
    out.print(table)


def print_optimum(out: Console, document: Mapping[str, Any]) -> None:
    """Print certified optima, given as the document that --json prints."""
    for kind, found in document.items():
        out.print(f"{_OPTIMA[kind]}: {found['value']}, certified")
        certificate = found["certificate"]
        if "budget" not in certificate:
            continue
        table = ruled(out, "prefix", "budget", "target price", "draft price")
        for prefix, budget in certificate["budget"].items():
            prices = (certificate[column][prefix] for column in ("target_price", "draft_price"))
            table.add_row(prefix, budget, *prices)
        out.print(table)


def print_comparison(out: Console, document: Mapping[str, Any]) -> None:
    """Print algorithms beside the optima, given as the document that --json prints."""
    table = ruled(out, "algorithm", "E\\[accepted length]", "share of optimum", "lossless")
    shown = _decimals if out.width < _NARROW else _exact
    for row in document["algorithms"]:
        name = f"{row['algorithm']} (stateful)" if row["stateful"] else row["algorithm"]
        figures = (shown(row[column]) for column in ("expected_accepted", "share"))
        table.add_row(name, *figures, _lossless(row["lossless"]))
    for kind, value in document["optimum"].items():
        table.add_row(f"{kind} optimum", shown(value), "1", "")
    out.print(table)
    if unfit := [row["algorithm"] for row in document["unfit"]]:
        out.print(f"does not fit: {', '.join(unfit)}")


def print_claims(out: Console, document: Mapping[str, Any]) -> None:
    """Print the ledger of claims, given as the document that --json prints."""
    for claim in document["claims"]:
        failed = claim.get("failure")
        count = claim["instances"]
        examined = f"all {count} instances" if count > 1 else "the one instance"
        told = _VERDICTS[claim["verdict"]].format(examined=f"{examined} examined")
        verdict = "[bold red]derivation failed[/]" if failed else told
        took = f", {claim['seconds']:.1f} s" if "seconds" in claim else ""
        out.print(f"[bold]{claim['id']}[/]: {verdict}{took}")
        out.print(f"  {escape(claim['statement'])}")
        out.print(f"  {escape(claim['source'])}; {escape(claim['shape'])}")
        if failed:
            out.print(f"  {escape(failed)}")
        if claim["theorems"]:
            out.print(f"  theorems: {escape(', '.join(claim['theorems']))}")
        if claim["rests_on"]:
            below = (f"{each['id']} ({each['verdict']})" for each in claim["rests_on"])
            out.print(f"  rests on: {escape(', '.join(below))}")
        if claim["figures"]:
            figures = (f"{name} {value}" for name, value in claim["figures"].items())
            out.print(f"  {escape(', '.join(figures))}")
        if claim["counterexample"]:
            shown = json.dumps(claim["counterexample"])
            if len(shown) > _PLAIN_WIDTH:
                shown = f"draftproof claims {claim['id']} --json"
            out.print(f"  counterexample: {escape(shown)}", soft_wrap=True)


def print_catalogue(out: Console, catalogue: Mapping[str, list[dict[str, Any]]]) -> None:
    """Print the output of `draftproof list`: a table for each kind of entry."""
    for kind, entries in catalogue.items():
        out.print(f"[bold]{kind}[/]")
        table = ruled(out, *entries[0])
        for entry in entries:
            table.add_row(*(escape(_listed(value)) for value in entry.values()))
        out.print(table)


def ruled(out: Console, *columns: str) -> Table:
    """Return a table of these columns with folded cells; a terminal shows rules."""
    table = Table(box=box.SIMPLE_HEAD if out.is_terminal else None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _verdict(decision: Mapping[str, Any]) -> str:
    verdict = words.verdict(decision)
    if words.warns(decision):
        return f"[yellow]{verdict}[/] (SHOULD)"
    return f"[{_STYLE.get(verdict, 'dim')}]{verdict}[/]"


def _listed(value: object) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _lossless(lossless: bool) -> str:  # noqa: FBT001  # it is what is printed
    return "lossless" if lossless else "[bold red]not lossless[/]"


def _exact(value: str) -> str:
    """Return a rational and its decimals; only the decimals if the rational is too long to read."""
    is_long = len(value) > _READABLE
    return f"{value} = {_decimals(value)}" if "/" in value and not is_long else _decimals(value)


def _decimals(value: str) -> str:
    return f"{float(Fraction(value)):.6f}" if "/" in value else value
