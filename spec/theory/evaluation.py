"""The programs of the theory, run in Coq on the test vectors: they have the reference's laws.

The theorems are of the programs in these files. That a program is the algorithm of the reference
is nothing that Coq could prove; here it is tested, by their laws, exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any, TypeVar

from theory.checking import BUILD, FOLDER, evaluated
from theory.factor import least_factor

Read = TypeVar("Read")

Tokens = tuple[int, ...]
Outcome = tuple[Tokens, int]
"""The accepted tokens, and the next token."""

Law = Mapping[Outcome, Fraction]
Rows = Mapping[Tokens, tuple[Fraction, ...]]
Given = Mapping[tuple[Tokens, ...], Law]
"""The laws on given paths."""


def _nothing(_: Instance, _given: Given) -> str:
    return ""


@dataclass(frozen=True)
class Program:
    """How a program of the theory is asked, in Coq's words.

    `files` are what it needs. `drafting` has a term for each scheme of drafting: the law of the
    emission, drafts included. `given` is the law of the emission on paths that are drafted already.
    `left` is the model that the program leaves, if it leaves one. `defined` gives sentences that
    define further words; it is also told the laws that are wanted on given paths.

    The words can name `vocabulary`, the models `p` and `q`, `length`, `count` and `widths` of an
    instance, and whether siblings are drawn i.i.d., `replaced`; `given` also the paths, as a list
    `paths` and as a tree `siblings`.
    """

    files: tuple[str, ...]
    drafting: Mapping[str, str]
    given: str
    left: str = ""
    defined: Callable[[Instance, Given], str] = _nothing


SCHEMES = {
    "iid": ("rejection", "(rejection.draw_siblings vocabulary true)"),
    "without_replacement": ("rejection", "(rejection.draw_siblings vocabulary false)"),
    "hub": ("spechub", "(spechub.draw_hub vocabulary)"),
    "greedy": ("greedy_draft", "(greedy_draft.draw_greedy vocabulary)"),
}
"""The programs that draw siblings: the file of each, and how it is asked."""


def _descending(
    file: str,
    rule: str,
    schemes: Iterable[str],
    defined: Callable[[Instance, Given], str] = _nothing,
) -> Program:
    """Return the program that goes down a tree by a rule for one position."""
    descend = f"descent.descend vocabulary p q {{}} ({rule}) length [::]"
    # One draft is the same in all schemes, and drawn i.i.d. here.
    drafting = {
        scheme: descend.format(f"(descent.growing {SCHEMES[scheme][1]} widths q)")
        for scheme in ("iid", *schemes)
    }
    sources = dict.fromkeys(("descent", file, *(SCHEMES[scheme][0] for scheme in drafting)))
    return Program(tuple(sources), drafting, descend.format("siblings"), defined=defined)


_BLOCK = "block.verify vocabulary p ({law}) path"
_GREEDY = "greedy_block.verify vocabulary p ({law}) length path"


def _selecting(
    file: str,
    program: str,
    drafts: str,
    given: str,
    law: str,
    verify: str = _BLOCK,
    left: str = "",
) -> Program:
    """Return the program that selects a path, and verifies it against its law.

    The program is what Coq accepts as the same, asked in an order that takes less time: a path that
    many drafts lead to is verified once, and tokens are ranked once, as the rows of the law are
    computed. `drafts` select a path of those that they draw, and `given` one of given ones. All
    leave a place for the `rank`, if they have one; `verify` and `left` leave one for the `law`.
    """
    whole = f"path <- {drafts} ;; {verify.format(law=law)}"
    defined = f"""\
Definition order := selection.by_ratio vocabulary p q.
Definition rank := selection.in_order order.
Definition same : {program.format(rank="rank")} = ({whole.format(rank="rank")}) := erefl.
Definition orders := [seq (z, order z) | z <- contexts vocabulary length].
Definition ranked := selection.in_order (found [::] orders).
Definition known := tabulated vocabulary length ({law.format(rank="ranked")})."""
    drafting, given = (
        f"path <- gathered ({each.format(rank='ranked')}) ;; {verify.format(law='known')}"
        for each in (drafts, given)
    )
    sources = tuple(dict.fromkeys((verify.partition(".")[0], "selection", file)))
    return Program(
        sources, {"iid": drafting}, given, left.format(law="known"), defined=lambda *_: defined
    )


def _choosing(file: str, program: str, choice: str, law: str) -> Program:
    """Return the program that selects a path by a choice at every node."""
    drafts = f"selection.selected vocabulary ({choice}) q count length"
    return _selecting(file, program, drafts, f"selection.select ({choice}) length [::] paths", law)


def _factors(instance: Instance, _: Given) -> str:
    """Return the factor of K-SEQ as a function of the rows and of the number of siblings."""
    free = instance.is_context_free
    entries = {
        f"({_row(p)}, {_row(q)}, {width}, {_number(least_factor(p, q, width))})"
        for context, q in instance.draft.items()
        for p in (
            instance.target.values() if free[1] else [instance.target[() if free[0] else context]]
        )
        for width in range(1, instance.drafts + 1)
    }
    return f"""\
Definition factors : seq (seq Q * seq Q * nat * Q) := {_listed(sorted(entries))}.
Definition factor (p q : row rationals nat) (width : nat) : Q :=
  head 0%Q [seq entry.2 | entry <- factors &
    [&& all2 Qeq_bool (map p vocabulary) entry.1.1.1, all2 Qeq_bool (map q vocabulary) entry.1.1.2
      & width == entry.1.2]]."""


def _coupling(_: Instance, given: Given) -> str:
    """Return the coupling of a vector: where it stops, given the paths.

    The program has none of its own; it is asked only if what the theorems suppose of a coupling is
    so of the vector's. So of the law on given paths the next token is compared, not the stop.
    Raises `LookupError` where no paths are given.
    """
    if not given:
        raise LookupError("a coupling is read off a vector's laws on given paths: there are none")
    entries = []
    for paths, law in given.items():
        stops: dict[Tokens, Fraction] = {}
        for (accepted, _next), weight in law.items():
            stops[accepted] = stops.get(accepted, Fraction()) + weight
        listed = (f"({_tokens(accepted)}, {_number(w)})" for accepted, w in stops.items())
        entries.append(f"({_listed(map(_tokens, paths))}, {_listed(listed)})")
    return f"""\
Definition couplings : seq (seq (seq nat) * law rationals (seq nat)) := {_listed(entries)}.
Definition stop (drafted : seq (seq nat)) : law rationals (seq nat) :=
  flatten [seq entry.2 | entry <- couplings & entry.1 == drafted].
Definition stops : law rationals (seq nat) :=
  gathered (drafted <- spectr_gbv.drafts vocabulary q count length ;; stop drafted).
Definition couples : bool :=
  all (fun z => Qeq_bool (expect (N := rationals) (fun y => if y == z then 1%Q else 0%Q) stops)
    (spectr_gbv.stopped vocabulary p q count length z)) (contexts vocabulary length.+1)
  && all (fun entry => all (fun stop => has (prefix stop.1) entry.1 && Qle_bool 0 stop.2) entry.2
    && Qeq_bool (expect (N := rationals) (fun _ => 1%Q) entry.2) 1) couplings."""


_MIXED = "vocabulary {rank} (mixed.most_kept_next vocabulary) p q count"
_SCORED = "vocabulary (@least rationals) p q count"
_SCORED_GREEDY = "vocabulary (@scored.all_of_it rationals) p q count"

PROGRAMS: Mapping[str, Program] = {
    "token": Program(
        ("descent", "rejection", "token"),
        {"iid": "token.token vocabulary p q length"},
        "descent.descend vocabulary p q siblings (rejection.accept_or_correct vocabulary) length "
        "[::]",
    ),
    "block": Program(
        ("block",),
        {"iid": "block.block vocabulary p q length"},
        "block.verify vocabulary p q (head [::] paths)",
    ),
    "greedy_block": Program(
        ("greedy_block",),
        {
            "iid": "greedy_block.greedy_block vocabulary p q length "
            "(emission.path vocabulary q length [::])"
        },
        "greedy_block.verify vocabulary p q length (head [::] paths)",
        left="greedy_block.modified vocabulary p q length",
    ),
    "recursive_rejection": _descending(
        "rejection",
        "rejection.recursive_rejection vocabulary replaced",
        ("without_replacement",),
    ),
    "k_seq": _descending("k_seq", "k_seq.k_seq vocabulary factor", (), _factors),
    "naive_tree": _descending(
        "target_first",
        "target_first.naive_tree vocabulary",
        ("without_replacement", "hub"),
    ),
    "target_first": _descending("target_first", "target_first.target_first vocabulary", SCHEMES),
    "spechub": _descending("spechub", "spechub.spechub vocabulary", ("hub",)),
    "greedy_draft": _descending(
        "greedy_draft", "greedy_draft.greedy_draft vocabulary", ("greedy",)
    ),
    "traversal": Program(
        ("descent", "rejection", "traversal"),
        {
            scheme: f"traversal.traversal vocabulary p q (descent.growing {SCHEMES[scheme][1]} "
            "widths q) length"
            for scheme in ("iid", "without_replacement")
        },
        "traversal.traversal vocabulary p q siblings length",
    ),
    "multipath_block": _choosing(
        "selection",
        "selection.multipath_block vocabulary {rank} p q count length",
        "selection.go_to_highest rationals {rank}",
        "selection.skewed vocabulary {rank} q count",
    ),
    "mixed_multipath_block": _choosing(
        "mixed",
        f"mixed.mixed_multipath_block {_MIXED} length",
        f"mixed.highest_or_any {_MIXED}",
        f"mixed.mixed {_MIXED}",
    ),
    "scored_multipath_block": _selecting(
        "scored",
        "scored.scored_multipath_block vocabulary p q count length",
        f"scored.selected {_SCORED} length",
        f"scored.select (scored.scores_of {_SCORED}) paths",
        f"scored.scored {_SCORED}",
    ),
    "scored_greedy_block": _selecting(
        "scored",
        "scored.scored_greedy_block vocabulary p q count length",
        f"scored.selected {_SCORED_GREEDY} length",
        f"scored.select (scored.scores_of {_SCORED_GREEDY}) paths",
        f"scored.scored {_SCORED_GREEDY}",
        _GREEDY,
        "greedy_block.modified vocabulary p {law} length",
    ),
    "spectr_gbv": Program(
        ("spectr_gbv",),
        {"iid": "if couples then spectr_gbv.spectr_gbv vocabulary p q count stop length else [::]"},
        "spectr_gbv.verify vocabulary p q count stop length paths",
        left="spectr_gbv.modified vocabulary p q count length",
        defined=_coupling,
    ),
}
"""The programs by the name of the algorithm in the reference. A new one is a few lines here."""


@dataclass(frozen=True)
class Instance:
    """A target, a draft and the size of the drafts, as a file of vectors has them."""

    vocabulary: int
    length: int
    drafts: int
    scheme: str
    widths: tuple[int, ...]
    target: Rows
    draft: Rows
    is_context_free: tuple[bool, bool]


@dataclass(frozen=True)
class Vector:
    """The law that an algorithm must have on an instance: with drafting, and on given paths.

    `left` has the rows of the target that it leaves, by their context from the iteration's start.
    """

    id: str
    instance: Instance
    law: Law
    given: Given
    left: Rows


def instance_from_json(document: Mapping[str, Any]) -> Instance:
    """Return the instance that a document of the schema "instance" describes."""
    length, drafts = document["length"], document["drafts"]
    branching = document.get("branching") or [drafts, *[1] * (length - 1)]
    scheme = document["scheme"]
    target, draft = (_rows(document[name]) for name in ("target", "draft"))
    free = (isinstance(document["target"], list), isinstance(document["draft"], list))
    return Instance(
        document["vocabulary"],
        length,
        drafts,
        "iid" if scheme == "tree" or drafts == 1 else scheme,
        tuple(branching),
        target,
        draft,
        free,
    )


def vectors_of(algorithm: str) -> list[Vector]:
    """Return the vectors of an algorithm's laws that its program can be asked."""
    found = []
    for file in sorted(FOLDER.parent.glob("vectors/*/laws.json")):
        document = json.loads(file.read_text(encoding="utf-8"))
        for vector in document["vectors"]:
            if vector["algorithm"] == algorithm:
                instance = instance_from_json(document["instances"][vector["instance"]])
                if instance.scheme in PROGRAMS[algorithm].drafting:
                    found.append(_vector(vector, instance))
    return found


def differences(program: Program, vectors: Sequence[Vector], build: Path = BUILD) -> list[str]:
    """Return how the laws of a program differ from those of the vectors, in words."""
    asked = [(each.instance, each.given, tuple(each.left)) for each in vectors]
    wrong: list[str] = []
    for vector, (law, given, left) in zip(vectors, _laws(program, asked, build), strict=True):
        wrong += _compared(f"{vector.id}, drafting included", law, vector.law)
        for paths, own in given.items():
            wrong += _compared(f"{vector.id} on {list(paths)}", own, vector.given[paths])
        wrong += [
            f"{vector.id}: the row that it leaves at {list(context)} is "
            f"{_shown(left[context])} here, and {_shown(row)} in the vector"
            for context, row in vector.left.items()
            if left[context] != row
        ]
    return wrong


def law_of(program: Program, instance: Instance, build: Path = BUILD) -> Law:
    """Return the law of the emission of a program on an instance, drafting included.

    Raises `LookupError` for a scheme of drafting that the program has no term for.
    """
    if instance.scheme not in program.drafting:
        raise LookupError(f"the program has no drafts of the scheme {instance.scheme!r}")
    ((law, _, _),) = _laws(program, [(instance, {}, ())], build)
    return law


# --- what Coq is asked, and what it says ----------------------------------------------------------

_PREAMBLE = """\
From mathcomp Require Import all_ssreflect.
From Coq Require Import QArith.
From Draftproof Require Import laws emission rationals.
From Draftproof Require {files}.
Set Implicit Arguments.
Open Scope nat_scope.
Set Printing Width 100000.
Set Printing Depth 100000000.

(* Everything is printed as one list of integers: how many there are of what follows, then these. *)
Definition told (A : Type) (tell : A -> seq Z) (all : seq A) : seq Z :=
  Z.of_nat (size all) :: flatten (map tell all).
Definition of_tokens : seq nat -> seq Z := told (fun token => [:: Z.of_nat token]).
Definition of_number (x : Q) : seq Z := let y := Qred x in [:: Qnum y; Zpos (Qden y)].
Definition of_law (m : law rationals (seq nat * nat)) : seq Z :=
  told (fun o => of_tokens o.1.1 ++ Z.of_nat o.1.2 :: of_number o.2) (gathered m).
"""

_INSTANCE = """
Module Instance{number}.
Definition vocabulary : seq nat := iota 0 {vocabulary}.
Definition length : nat := {length}.
Definition count : nat := {drafts}.
Definition widths : nat -> nat := nth 1 {widths}.
Definition replaced : bool := {replaced}.
Definition p : model rationals nat_eqType := {target}.
Definition q : model rationals nat_eqType := {draft}.
{defined}
Definition drafting : law rationals (seq nat * nat) :=
  {drafting}.
Definition given (drafted : seq (seq nat) * seq (seq nat * seq nat)) :
    law rationals (seq nat * nat) :=
  let paths := drafted.1 in
  let siblings (h : seq (seq nat * nat)) := ret rationals (found [::] drafted.2 (map snd h)) in
  {given}.
Definition left : model rationals nat_eqType := {left}.
Definition answer : seq Z :=
  of_law drafting ++ told (fun drafted => of_law (given drafted)) {paths} ++
  told (fun z => told of_number (map (left z) vocabulary)) {contexts}.
End Instance{number}.
Eval vm_compute in Instance{number}.answer.
"""

Asked = tuple[Instance, Given, tuple[Tokens, ...]]
Answer = tuple[Law, Given, Rows]


def _laws(program: Program, asked: Sequence[Asked], build: Path) -> Iterator[Answer]:
    """Yield the laws of a program on instances, on their given paths, and the rows that it leaves.

    Whatever Coq is asked is one run of it.
    """
    text = _PREAMBLE.format(files=" ".join(program.files))
    text += "".join(_question(program, number, *each) for number, each in enumerate(asked))
    *answers, _ = re.split(r"\n\s+: (?:seq|list) Z", evaluated(text, build))
    for (_, paths, contexts), answer in zip(asked, answers, strict=True):
        numbers = map(int, re.findall(r"-?\d+", answer))
        law = _read_law(numbers)
        given = dict(zip(paths, _many(numbers, _read_law), strict=True))
        rows = (tuple(_many(numbers, _read_number)) for _ in range(next(numbers)))
        yield law, given, dict(zip(contexts, rows, strict=True))


def _question(
    program: Program,
    number: int,
    instance: Instance,
    paths: Given,
    contexts: Iterable[Tokens],
) -> str:
    drafts = (
        f"({_listed(map(_tokens, drafted))}, {_table(_tree(drafted, instance), _tokens)})"
        for drafted in paths
    )
    target_free, draft_free = instance.is_context_free
    return _INSTANCE.format(
        number=number,
        vocabulary=instance.vocabulary,
        length=instance.length,
        drafts=instance.drafts,
        widths=_tokens(instance.widths),
        replaced=str(instance.scheme == "iid").lower(),
        target=_model(instance.target, is_context_free=target_free),
        draft=_model(instance.draft, is_context_free=draft_free),
        defined=program.defined(instance, paths),
        drafting=program.drafting[instance.scheme],
        given=program.given,
        left=program.left or "fun=> fun=> 0%Q",
        paths=_listed(drafts),
        contexts=_listed(map(_tokens, contexts)),
    )


def _tree(paths: Sequence[Tokens], instance: Instance) -> dict[Tokens, Tokens]:
    """Return the siblings after every node, in the order in which they were drawn."""
    tree: dict[Tokens, Tokens] = {}
    for node in {path[:depth] for path in paths for depth in range(instance.length)}:
        depth = len(node)
        # Only i.i.d. siblings repeat a token; each has all the paths below it.
        step = prod(instance.widths[depth + 1 :]) if instance.scheme == "iid" else 1
        drawn = [path[depth] for path in paths[::step] if path[:depth] == node]
        tree[node] = tuple(drawn if instance.scheme == "iid" else dict.fromkeys(drawn))
    return tree


def _model(rows: Rows, *, is_context_free: bool) -> str:
    if is_context_free:
        return f"context_free {_row(rows[()])}"
    return f"model_of {_table(rows, _row)}"


def _row(row: Iterable[Fraction]) -> str:
    return _listed(map(_number, row))


def _number(x: Fraction) -> str:
    return f"({x.numerator} # {x.denominator})%Q"


def _tokens(tokens: Iterable[int]) -> str:
    return _listed(map(str, tokens))


def _table(table: Mapping[Tokens, Any], shown: Callable[[Any], str]) -> str:
    return _listed(f"({_tokens(context)}, {shown(entry)})" for context, entry in table.items())


def _listed(entries: Iterable[str]) -> str:
    return f"[:: {'; '.join(entries)}]"


def _many(numbers: Iterator[int], read: Callable[[Iterator[int]], Read]) -> list[Read]:
    return [read(numbers) for _ in range(next(numbers))]


def _read_law(numbers: Iterator[int]) -> Law:
    return dict(_many(numbers, _read_outcome))


def _read_outcome(numbers: Iterator[int]) -> tuple[Outcome, Fraction]:
    accepted = tuple(_many(numbers, next))
    return (accepted, next(numbers)), _read_number(numbers)


def _read_number(numbers: Iterator[int]) -> Fraction:
    return Fraction(next(numbers), next(numbers))


# --- what the vectors say -------------------------------------------------------------------------


def _vector(document: Mapping[str, Any], instance: Instance) -> Vector:
    whole: dict[Outcome, Fraction] = {}
    given: dict[tuple[Tokens, ...], Law] = {}
    left: dict[Tokens, tuple[Fraction, ...]] = {}
    for drafted in document["drafts"]:
        paths = tuple(map(tuple, drafted["paths"]))
        law: dict[Outcome, Fraction] = {}
        for path, count, following, probability, *rest in drafted["law"]:
            accepted = paths[path][:count]
            outcome, weight = (accepted, following), Fraction(probability)
            law[outcome] = law.get(outcome, Fraction()) + weight
            share = Fraction(drafted["probability"]) * weight
            whole[outcome] = whole.get(outcome, Fraction()) + share
            for rows in rest:
                after = (*accepted, following)
                left |= {after + context: row for context, row in _rows(rows).items()}
        given[paths] = law
    return Vector(document["id"], instance, whole, given, left)


def _rows(document: Any) -> Rows:
    if isinstance(document, list):
        document = {"": document}
    return {
        tuple(map(int, context.split(","))) if context else (): tuple(map(Fraction, row))
        for context, row in document.items()
    }


def _compared(where: str, law: Law, wanted: Law) -> Iterator[str]:
    for outcome in sorted({*law, *wanted}):
        here, there = law.get(outcome, Fraction()), wanted.get(outcome, Fraction())
        if here != there:
            accepted, following = outcome
            yield (
                f"{where}: accepted {list(accepted)} and then {following} has probability {here} "
                f"here, and {there} in the vector"
            )


def _shown(row: Iterable[Fraction]) -> str:
    return f"[{', '.join(map(str, row))}]"
