"""Worked examples: the reference's questions and answers, run by run, and the resulting laws."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from building import algorithms, gates, power
from building.algorithms import example_of
from building.markdown import table
from draftproof.conformance.cases import cases
from draftproof.reference.chance import Chance, enumerate_runs
from draftproof.reference.drafting import Drafts, FixedTree, draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported
from draftproof.reference.ledger.instances import example
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum import stateful as _stateful
from draftproof.reference.optimum import stateless as _stateless
from draftproof.reference.process import continued, expected_accepted
from draftproof.reference.rational import Rational, ratio_or_one, total
from draftproof.reference.verifiers import (
    ALGORITHMS,
    Algorithm,
    emission_law,
    require_fit,
)

# --- what the reference asks ----------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """Random choice of a run: the question, the answer, and its probability."""

    question: str
    answer: str
    share: Rational


@dataclass(frozen=True)
class Run:
    """Run: its choices in order, its emission, and its probability given the drafts."""

    asked: tuple[Asked, ...]
    emission: Emission
    probability: Rational


class Unworded(LookupError):
    """Error of a question of the reference that this module has no words for."""


class _Recorder:
    """Chance that passes every question on, and records questions and answers."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self.asked: list[Asked] = []

    def draw(self, weights: Sequence[Rational]) -> int:
        """Draw, and record the draw."""
        question, answers = _worded(_DRAWS, *_caller())
        answer = self._chance.draw(weights)
        share = weights[answer] / total(weights)
        self.asked.append(Asked(f"{question}:", answers(answer), share))
        return answer

    def coin(self, probability: Rational) -> bool:
        """Toss, and record the toss."""
        question, _ = _worded(_COINS, *_caller())
        heads = self._chance.coin(probability)
        share = probability if heads else 1 - probability
        self.asked.append(Asked(f"{question}?", "yes" if heads else "no", share))
        return heads


Seen = Mapping[str, Any]
"""The variables of a function, and of its callers."""

Words = tuple[str, Callable[[int], str]]
"""A question, and a function from the index of an answer to its words."""

_Question = str | Callable[[Seen], str | Words]
"""A question, or a function that makes it from the variables."""


def _caller() -> tuple[str, Seen]:
    """Return the function of the reference that asks, with its variables and those of its callers.

    They are read from the running program, not from a copy, so the words follow its execution.
    """
    frame = sys._getframe(2)
    function, seen = frame.f_code.co_qualname, dict[str, Any]()
    while frame.f_globals["__name__"].startswith("draftproof.reference.verifiers"):
        seen = {**frame.f_locals, **seen}
        if frame.f_back is None:
            break
        frame = frame.f_back
    return function, seen


def _worded(known: Mapping[str, _Question], function: str, seen: Seen) -> Words:
    """Return the words for a question of a function of the reference. Raises `Unworded`."""
    if function not in known:
        raise Unworded(f"no words for {function}; its variables are {', '.join(sorted(seen))}")
    question = known[function]
    asked = question if isinstance(question, str) else question(seen)
    return asked if isinstance(asked, tuple) else (asked, lambda index: f"`{index}`")


def _tokens(path: Path) -> str:
    return f"`{' '.join(map(str, path))}`" if path else "nothing"


def _accept(at: Seen) -> str:
    return f"accept `{at['drafted'] if 'drafted' in at else at['token']}`"


def _keep(at: Seen) -> str:
    return f"keep {_tokens(at['path'][: at['i']])}"


_NEXT_TOKEN, _CORRECTION = "next token", "correction"


def _mixed(at: Seen) -> str:
    return _NEXT_TOKEN if "kept" in at else f"after {_tokens(at['path'])}, go on with"


def _scored(at: Seen) -> str | Words:
    if "accepted" in at:
        return _NEXT_TOKEN
    return "smallest score", lambda index: f"{_tokens(at['paths'][index])} (path {index + 1})"


def _stopping(at: Seen) -> str | Words:
    if "accepted" in at:
        return _NEXT_TOKEN
    return "stop after", lambda index: _tokens(at["stops"][index])


def _transported(at: Seen) -> str | Words:
    if "given" in at:
        return _CORRECTION
    return "which", lambda index: f"`{at['tokens'][index]}`"


_COINS: Mapping[str, _Question] = {
    "accept_or_correct": _accept,
    "k_seq.<locals>.rule": _accept,
    "keep.<locals>.<genexpr>": _keep,
    "kept.<locals>.<genexpr>": _keep,
    "optimal_transport.<locals>.rule": "accept a sibling",
    "recursive_rejection.<locals>.rule": _accept,
    "rule": _accept,
    "traversal.<locals>.kept": lambda at: f"keep {_tokens(at['node'])}",
}
"""The decision of a coin, for each function of the reference."""

_DRAWS: Mapping[str, _Question] = {
    "accept_or_correct": _CORRECTION,
    "block": _NEXT_TOKEN,
    "canonical.<locals>.rule": "select",
    "descend": _NEXT_TOKEN,
    "greedy_block": _NEXT_TOKEN,
    "k_seq.<locals>.rule": _CORRECTION,
    "mixed_multipath_block": _mixed,
    "multipath_block": _NEXT_TOKEN,
    "optimal_transport.<locals>.rule": _transported,
    "recursive_greedy_block": _NEXT_TOKEN,
    "recursive_rejection.<locals>.rule": _CORRECTION,
    "rule": _CORRECTION,
    "scored_greedy_block": _scored,
    "scored_multipath_block": _scored,
    "spectr_gbv": _stopping,
    "target_first.<locals>.rule": "the target draws",
    "traversal.<locals>.kept": _NEXT_TOKEN,
}
"""The object of a draw, for each function of the reference."""


def runs(name: str, drafts: Drafts) -> list[Run]:
    """Return all runs of an algorithm on given drafts of its example."""
    instance, algorithm = example_of(name).instance, ALGORITHMS[name]
    tree = FixedTree(drafts, instance)

    def program(chance: Chance) -> tuple[Emission, tuple[Asked, ...]]:
        recorder = _Recorder(chance)
        return algorithm.verify(tree, instance, recorder), tuple(recorder.asked)

    return [Run(asked, emission, weight) for (emission, asked), weight in enumerate_runs(program)]


def worked(name: str) -> str:
    """Return an algorithm's example step by step: all possible runs on some of its drafts."""
    shown = example_of(name)
    law = draft_law(shown.instance)
    rows = []
    for drafts in shown.drafts:
        drafted = "<br>".join((*map(_tokens, drafts), str(law[drafts])))
        for asked, accepted, following, probability in _steps(runs(name, drafts)):
            rows.append([drafted, asked, accepted, following, probability])
            drafted = ""
    head = ["drafted", "asked and answered", "accepted", "next token", "all of it"]
    return "\n\n".join(
        (
            _told(shown.instance),
            "Behind each draft and each answer stands its probability, in the last column that of "
            "the row, given the drafts:",
            table(head, rows, align="llllr"),
        )
    )


def _steps(found: Sequence[Run]) -> Iterator[tuple[str, str, str, str]]:
    """Yield runs as rows of a table; runs that differ only in their next token share a row."""
    questions = (f"{_NEXT_TOKEN}:", f"{_CORRECTION}:")
    # A correction that is a sibling is accepted, and followed by another draw.
    goes_on = any(each.question in questions for run in found for each in run.asked[:-1])
    rows: dict[tuple[tuple[Asked, ...], Path], list[Run]] = {}
    for run in found:
        last = run.asked[-1].question
        is_next = last == questions[0] or (last == questions[1] and not goes_on)
        asked = run.asked[:-1] if is_next else run.asked
        rows.setdefault((asked, run.emission.accepted), []).append(run)
    for (asked, accepted), own in rows.items():
        told = "<br>".join(f"{each.question} {each.answer}, {each.share}" for each in asked)
        probability = total(run.probability for run in own)
        yield told, _tokens(accepted), _next(own), str(probability)


def _next(found: Sequence[Run]) -> str:
    mass = total(run.probability for run in found)
    shares = [(run.emission.next_token, run.probability / mass) for run in found]
    return "<br>".join(f"`{token}`, {share}" for token, share in sorted(shares))


def _told(instance: Instance) -> str:
    """Return an instance in one line."""
    rows = [", ".join(map(str, model(()))) for model in (instance.target, instance.draft)]
    drawn = (
        "" if instance.drafts == 1 else f", K = {instance.drafts}, drawn {_DRAWN[instance.scheme]}"
    )
    return (
        f"$p = ({rows[0]})$ and $q = ({rows[1]})$ in every context; L = {instance.length}{drawn}."
    )


_DRAWN = {
    "iid": "independently",
    "without_replacement": "without replacement",
    "hub": "as a pair with the hub",
    "greedy": "greedily",
}


# --- what it comes to -----------------------------------------------------------------------------


def law(name: str) -> str:
    """Return the exact law of an algorithm's example, and its text's law beside the target's."""
    instance, algorithm = example_of(name).instance, ALGORITHMS[name]
    emitted = emission_law(algorithm, instance)
    seen = emitted.map(lambda emission: (emission.accepted, emission.next_token))
    told = sorted(seen.items(), key=lambda item: (len(item[0][0]), item[0]))
    horizon = instance.length + 1
    text, right = continued(emitted, instance, horizon), instance.target.text(horizon)
    emission = table(
        ["accepted", "next token", "probability"],
        [[_tokens(accepted), f"`{token}`", str(weight)] for (accepted, token), weight in told],
        align="llr",
    )
    written = table(
        [f"first {horizon} tokens", "verified", "target"],
        [[_tokens(path), str(text[path]), str(right[path])] for path in sorted({*text, *right})],
        align="lrr",
    )
    distance = text.total_variation(right)
    return "\n\n".join(
        (
            f"E[accepted length] is {figure(expected_accepted(emitted))}. What is emitted, drafts "
            f"averaged out:",
            emission,
            f"Continued by the target{' that it leaves' if algorithm.stateful else ''}, the text "
            f"is {'the target’s' if distance == 0 else f'{distance} away from the target’s'}:",
            written,
        )
    )


STANDARD: Mapping[str, Instance] = {
    "thirds": example("1/3 2/3", "2/3 1/3", length=2),
    "three tokens": example("1/2 1/3 1/6", "1/6 1/3 1/2"),
    "close": example("3/5 2/5", "1/2 1/2", length=2),
    "by context": next(c.instance for c in cases("standard") if c.id == "generic.v2.l3"),
}
"""The standard example instances, of one draft."""


def standard() -> str:
    """Return the standard examples as a table."""
    rows = []
    for name, instance in STANDARD.items():
        p, q = (", ".join(map(str, model(()))) for model in (instance.target, instance.draft))
        where = (
            "every context" if instance.target.context_free else "the empty context, others after"
        )
        rows.append([name, f"$({p})$", f"$({q})$", where, str(instance.length)])
    return table(["example", "p", "q", "in", "L"], rows, align="llllr")


def values(name: str) -> str:
    """Return E[accepted length] of an algorithm on the standard examples, beside the optimum.

    Raises `LookupError` for an unknown name.
    """
    if name not in ALGORITHMS:
        raise LookupError(f"no algorithm {name!r}; known: {', '.join(ALGORITHMS)}")
    algorithm = ALGORITHMS[name]
    best = "stateful optimum" if algorithm.stateful else "optimum"
    drawn: dict[tuple[str, str, Rational, Rational], list[str]] = {}
    for told, instance in _standard(algorithm):
        value = expected_accepted(emission_law(algorithm, instance))
        optimum = _optimum(instance, stateful=algorithm.stateful)
        size = f"K = {instance.drafts}, L = {instance.length}"
        # With few tokens, schemes that draw no token twice draw the same ones.
        drawn.setdefault((told, size, value, optimum), []).append(_DRAWN[instance.scheme])
    rows = [
        [
            told,
            size if algorithm.most_drafts == 1 else f"{size}, {' or '.join(schemes)}",
            figure(value),
            figure(optimum),
            f"{float(ratio_or_one(value, optimum)):.1%}",
        ]
        for (told, size, value, optimum), schemes in drawn.items()
    ]
    head = ["example", "drafts", "E[accepted length]", best, "share"]
    return table(head, rows, align="llrrr")


def _standard(algorithm: Algorithm) -> Iterator[tuple[str, Instance]]:
    """Yield the examples with the drafts of an algorithm: one; or two of each scheme, and three."""
    for told, one in STANDARD.items():
        if algorithm.most_drafts == 1:
            yield told, one
            continue
        several = [replace(one, drafts=2, scheme=scheme) for scheme in algorithm.schemes]
        for instance in (*several, replace(several[0], drafts=3)):
            try:
                require_fit(algorithm, instance)
            except Unsupported:
                continue
            yield told, instance


def shares() -> str:
    """Return each algorithm's share of the stateless optimum with two drafts, or with one."""
    rows = []
    for algorithm in ALGORITHMS.values():
        cells = []
        for one in STANDARD.values():
            drafts = 1 if algorithm.most_drafts == 1 else 2
            instance = replace(one, drafts=drafts, scheme=algorithm.schemes[0])
            value = expected_accepted(emission_law(algorithm, instance))
            cells.append(f"{float(value / _optimum(instance, stateful=False)):.1%}")
        drawn = "one path" if algorithm.most_drafts == 1 else _DRAWN[algorithm.schemes[0]]
        rows.append([f"[{algorithm.title}]({algorithm.name}.md)", drawn, *cells])
    return table(["algorithm", "drawn", *STANDARD], rows, align="llrrrr")


@cache
def _optimum(instance: Instance, *, stateful: bool) -> Rational:
    return (_stateful if stateful else _stateless)(instance).value


def figure(value: Rational) -> str:
    """Return a number exactly and to four digits; only to four digits if the exact form is long."""
    if value.denominator == 1:
        return str(value)
    digits = f"{float(value):.4f}"
    return f"{value} ≈ {digits}" if value.denominator < _LONG else f"≈ {digits}"


_LONG = 10**6
"""Denominator from which a number is long: K-SEQ's factor is rounded to a multiple of 2^-64."""

COMPUTED: Mapping[str, Callable[..., str]] = {
    "law": law,
    "shares": shares,
    "standard": standard,
    "values": values,
    "worked": worked,
    **algorithms.COMPUTED,
    **gates.COMPUTED,
    **power.COMPUTED,
}
"""The forms of the explanation by name."""
