"""What the playground asks of the reference: everything about one instance, bit by bit.

The browser runs this file, and the reference beside it, in a worker that must hear "stop". So
`computation` returns a function that computes for as many milliseconds as it is given, and tells
what it has found. Numbers are told as [exact, decimal], the second one to look at.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from time import perf_counter
from typing import Any

if sys.platform == "emscripten":
    # Both look for the real numpy when they are imported, and do without it.
    import arrays
    import networkx  # noqa: F401
    import sympy  # noqa: F401

    sys.modules["numpy"] = sys.modules["numpy.typing"] = arrays

from draftproof.reference.chance import Chance, enumerate_runs
from draftproof.reference.drafting import GrowingTree, draft_paths
from draftproof.reference.emission import Emission
from draftproof.reference.errors import (
    InvalidInput,
    NotADistribution,
    NotRational,
    Unsupported,
)
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path, context_key, instance_from_json
from draftproof.reference.optimum import LengthOptimum, check, stateful, stateless
from draftproof.reference.process import continued, expected_accepted, is_lossless
from draftproof.reference.rational import ONE, Rational
from draftproof.reference.verifiers import (
    ALGORITHMS,
    Algorithm,
    algorithm_named,
    require_fit,
    verification_law,
)

Document = dict[str, Any]
Steps = Iterator[float | tuple[Rational, Document]]

_OPTIMA: dict[str, Callable[[Instance], LengthOptimum]] = {
    "stateless": stateless,
    "stateful": stateful,
}

# Beyond these, one step that nothing interrupts takes seconds in a browser.
_MANY_PREFIXES, _MANY_DRAFTS = 100, 2000

# About how many; what is shorter goes first.
_A_LONG_STEP = 30

# Who has more than a few runs is asked by that many dives how many there are.
_FEW, _DIVES = 200, 40


@dataclass
class _Task:
    """A result to come. Its steps yield which part is done, and in the end (value, result).

    Nothing interrupts a `long` one, so it is begun only by those who are willing to wait. `since`
    says when the part was first known, and that part.
    """

    name: str
    steps: Steps
    long: bool
    done: float = 0
    seconds: float = 0
    since: tuple[float, float] | None = None
    is_finished: bool = False


def computation(text: str) -> Callable[[float, bool], str]:
    """Return a function of (milliseconds, willing) that goes on with an instance given as JSON.

    It returns JSON: the `results` and the `shares` of the optimum that are new, of what is begun
    which part is done (`running`), the `seconds` that this will take, apart from so many of which
    that is `unknown`, what awaits those who are `willing` (`waiting`), whether there is nothing
    else left to do (`idle`), and whether all is `finished`. What the reference refuses comes back
    as `error`, with the `message` of its refusal and the `model` that it is about.
    """
    try:
        instance = instance_from_json(json.loads(text))
        tasks = list(_tasks(instance))
        news = [_around(instance)]
    except InvalidInput as error:
        refusal = json.dumps({"error": _told(error)})
        return lambda *_: refusal
    values: dict[str, Rational] = {}
    untold = set(ALGORITHMS)

    def advance(milliseconds: float, willing: bool) -> str:  # noqa: FBT001  # JavaScript calls
        end = perf_counter() + milliseconds / 1000
        todo = [task for task in tasks if not task.is_finished and (willing or not task.long)]
        while todo and perf_counter() < end:
            # What is short is soon there.
            task = min(todo, key=_turn)
            found = _work(task, min(end, perf_counter() + 0.02))
            if found is not None:
                values[task.name], result = found
                news.append(result)
                todo.remove(task)
        shares = {name: share for name in untold if (share := _share(name, values)) is not None}
        untold.difference_update(shares)
        results = news.copy()
        news.clear()
        begun = [task for task in tasks if not task.is_finished and task.seconds > 0]
        known = [left for task in begun if (left := _seconds_left(task)) is not None]
        return json.dumps(
            {
                "results": results,
                "shares": {name: _written(share) for name, share in shares.items()},
                "running": {task.name: task.done for task in begun},
                "seconds": sum(known),
                "unknown": len(begun) - len(known),
                "waiting": [t.name for t in tasks if t.long and not t.is_finished],
                "idle": not todo,
                "finished": all(task.is_finished for task in tasks),
            }
        )

    return advance


def law_on(text: str, name: str, drafts: str) -> str:
    """Return the `law` of what an algorithm emits on given paths, or the `error`, all as JSON."""
    try:
        instance = instance_from_json(json.loads(text))
        paths = tuple(tuple(path) for path in json.loads(drafts))
        law = verification_law(algorithm_named(name), instance, paths)
    except InvalidInput as error:
        return json.dumps({"error": _told(error)})
    return json.dumps({"law": _rows(law.map(lambda e: (e.accepted, e.next_token, e.path)))})


def _tasks(instance: Instance) -> Iterator[_Task]:
    prefixes = sum(1 for _ in instance.draft.reachable(instance.length)) - 1
    for kind in _OPTIMA:
        is_long = instance.drafts > 1 and prefixes * instance.drafts > _MANY_PREFIXES
        yield _Task(kind, _optimum(kind, instance), is_long)
    for algorithm in ALGORITHMS.values():
        if _misfit(algorithm, instance) is None:
            # Its flow over all drafts comes first.
            drafts = len(_paths(instance)) ** instance.drafts
            is_long = algorithm.name == "spectr_gbv" and drafts > _MANY_DRAFTS
            yield _Task(algorithm.name, _algorithm(algorithm, instance), is_long)


def _work(task: _Task, end: float) -> tuple[Rational, Document] | None:
    """Go on with a task until it is finished, or the time has come."""
    start, found = perf_counter(), None
    for step in task.steps:
        if isinstance(step, tuple):
            found = step
            task.is_finished = True
            break
        task.done = step
        if perf_counter() >= end:
            break
    task.seconds += perf_counter() - start
    if task.since is None and task.done > 0:
        task.since = task.seconds, task.done
    return found


def _optimum(kind: str, instance: Instance) -> Steps:
    best = _OPTIMA[kind](instance)
    check(best, instance)
    certificate = [
        [list(prefix), _written(best.budget[prefix]), str(best.target_price[prefix]), str(price)]
        for prefix, price in best.draft_price.items()
    ]
    selection = [
        [str(weight), [context_key(path) for path in order]]
        for weight, order in best.selection
        if weight != 0
    ]
    yield (
        best.value,
        {
            "kind": "optimum",
            "name": kind,
            "value": float(best.value),
            "expected": _written(best.value),
            "certificate": certificate,
            "selection": selection,
        },
    )


def _algorithm(algorithm: Algorithm, instance: Instance) -> Steps:
    def program(chance: Chance) -> Emission:
        return algorithm.verify(GrowingTree(instance, chance), instance, chance)

    weights: dict[Emission, Rational] = {}
    expected = 0.0
    for count, (emitted, weight) in enumerate(enumerate_runs(program), start=1):
        weights[emitted] = weights[emitted] + weight if emitted in weights else weight
        if count == _FEW:
            random, runs = Random(0), 0  # noqa: S311  # an estimate
            for _ in range(_DIVES):
                dive = _Dive(random)
                program(dive)
                runs += dive.runs
                yield 0
            expected = max(runs / _DIVES, 1.1 * count)
        yield min(count / expected, 0.99) if expected else 0
    law = Law(weights)
    value, horizon = expected_accepted(law), instance.length + 1
    text, target = continued(law, instance, horizon), instance.target.text(horizon)
    yield (
        value,
        {
            "kind": "algorithm",
            "name": algorithm.name,
            "title": algorithm.title,
            "source": algorithm.source,
            "stateful": algorithm.stateful,
            "value": float(value),
            "expected": _written(value),
            "lossless": is_lossless(law, instance),
            "law": _rows(law.map(lambda e: (e.accepted, e.next_token))),
            "texts": [
                [list(tokens), str(text[tokens]), _written(target[tokens])]
                for tokens in sorted({*text, *target})
            ],
        },
    )


class _Dive:
    """A chance whose answers are all alike: `runs` estimates how many runs there are.

    Its expectation is their number: D. E. Knuth, Estimating the efficiency of backtrack programs,
    Mathematics of Computation 29, 1975.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self.runs = 1

    def draw(self, weights: Sequence[Rational]) -> int:
        possible = [index for index, weight in enumerate(weights) if weight != 0]
        self.runs *= len(possible)
        return self._random.choice(possible)

    def coin(self, probability: Rational) -> bool:
        return self.draw((probability, 1 - probability)) == 0


def _around(instance: Instance) -> Document:
    """Return what is known without any computing: the paths, a draft, and who takes it or not."""
    draft, _ = next(enumerate_runs(lambda chance: draft_paths(instance, chance)))
    misfits = {name: _misfit(algorithm, instance) for name, algorithm in ALGORITHMS.items()}
    return {
        "kind": "instance",
        "paths": _paths(instance),
        "draft": draft,
        "titles": {name: ALGORITHMS[name].title for name, reason in misfits.items() if not reason},
        "unfit": [[ALGORITHMS[name].title, reason] for name, reason in misfits.items() if reason],
    }


def _paths(instance: Instance) -> list[Path]:
    return [z for z in instance.draft.reachable(instance.length) if len(z) == instance.length]


def _misfit(algorithm: Algorithm, instance: Instance) -> str | None:
    try:
        require_fit(algorithm, instance)
    except Unsupported as reason:
        return str(reason)
    return None


def _share(name: str, values: dict[str, Rational]) -> Rational | None:
    best = "stateful" if ALGORITHMS[name].stateful else "stateless"
    if name not in values or best not in values:
        return None
    # Where nothing can be accepted, nothing is all of it.
    return values[name] / values[best] if values[best] else ONE


def _turn(task: _Task) -> float:
    """Return about how many seconds a task still takes, or, if that is unknown, has taken."""
    left = _seconds_left(task)
    if left is not None:
        return left
    return task.seconds or (_A_LONG_STEP if task.long else 0)


def _seconds_left(task: _Task) -> float | None:
    """Return how long it takes to the end, if it goes on as it went since the part was known."""
    seconds, done = task.since or (0, task.done)
    if task.done == done:
        return None
    return (task.seconds - seconds) * (1 - task.done) / (task.done - done)


def _rows(law: Law[Any]) -> list[list[Any]]:
    return [[*outcome, _written(weight)] for outcome, weight in sorted(law.items())]


def _written(value: Rational) -> list[str]:
    about = float(value)
    return [str(value), f"{about:.4f}" if about == 0 or about >= 1e-4 else f"{about:.0e}"]


_ADVICE: dict[type[InvalidInput], str] = {
    NotADistribution: "The weights of a row are at least 0 and sum to 1.",
    NotRational: "Write whole numbers, decimals such as 0.25 or fractions such as 1/3.",
}


def _told(error: InvalidInput) -> Document:
    """Return a refusal in words, and the `model` whose row it is about, if any."""
    said = str(error)
    model = next((name for name in ("target", "draft") if said.startswith(f"the {name}")), None)
    sentence = f"{said[:1].upper()}{said[1:]}."
    return {"message": f"{sentence} {_ADVICE.get(type(error), '')}".strip(), "model": model}
