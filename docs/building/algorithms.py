"""Content of the pages on algorithms: worked examples, transport plans and costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

from building import power
from building.markdown import flat, table
from building.pages import HOUSE
from building.pictures import Axis, Flow, Line, Panel, both, panels, shown, transport
from draftproof.reference.chance import Chance, enumerate_runs
from draftproof.reference.drafting import Drafts, FixedTree, draft_law
from draftproof.reference.law import Law
from draftproof.reference.ledger import CLAIMS, VERDICTS
from draftproof.reference.ledger.instances import example
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.process import after
from draftproof.reference.rational import total
from draftproof.reference.verifiers import ALGORITHMS, verification_law

_MEASURED = HOUSE / "adapters/benchmarks/results/decoding.json"

_ONE_PATH = example("1/3 2/3", "2/3 1/3", length=2)
_TWO_PATHS = replace(_ONE_PATH, drafts=2)
_THREE_TOKENS = example("1/2 1/3 1/6", "1/6 1/3 1/2", drafts=2)
_CLOSE = example("3/5 2/5", "1/2 1/2", drafts=2)
_CLOSE_THREE = example("2/5 2/5 1/5", "1/5 2/5 2/5", drafts=2)


@dataclass(frozen=True)
class Example:
    """The smallest instance that shows the behaviour of an algorithm, and the drafts to show."""

    instance: Instance
    drafts: tuple[Drafts, ...]


_EVERY_PATH = tuple(((a, b),) for a in range(2) for b in range(2))
_PAIRS = (((2,), (0,)), ((2,), (2,)))

EXAMPLES: Mapping[str, Example] = {
    "token": Example(_ONE_PATH, _EVERY_PATH),
    "block": Example(_ONE_PATH, _EVERY_PATH),
    "greedy_block": Example(_ONE_PATH, _EVERY_PATH),
    "recursive_rejection": Example(_THREE_TOKENS, _PAIRS),
    "k_seq": Example(_THREE_TOKENS, _PAIRS),
    "naive_tree": Example(_THREE_TOKENS, _PAIRS),
    "target_first": Example(_THREE_TOKENS, _PAIRS),
    "spechub": Example(
        replace(_THREE_TOKENS, scheme="hub"), (((1,), (2,)), ((2,), (1,)), ((2,), (0,)))
    ),
    "greedy_draft": Example(replace(_THREE_TOKENS, scheme="greedy"), (((2,), (0,)), ((2,), (1,)))),
    "optimal_transport": Example(_THREE_TOKENS, _PAIRS),
    "canonical": Example(_THREE_TOKENS, _PAIRS),
    "multipath_block": Example(_TWO_PATHS, (((0, 0), (1, 0)), ((0, 0), (0, 1)))),
    "traversal": Example(
        replace(_TWO_PATHS, scheme="without_replacement"),
        (((0, 0), (1, 0)), ((1, 0), (0, 1))),
    ),
    "spectr_gbv": Example(_TWO_PATHS, (((0, 0), (0, 0)), ((0, 0), (1, 0)))),
    "recursive_greedy_block": Example(_TWO_PATHS, (((0, 0), (0, 1)), ((0, 0), (1, 0)))),
    "mixed_multipath_block": Example(_CLOSE, (((0,), (1,)), ((1,), (1,)))),
    "scored_multipath_block": Example(_CLOSE_THREE, (((0,), (2,)), ((1,), (2,)), ((2,), (2,)))),
    "scored_greedy_block": Example(_TWO_PATHS, (((0, 0), (1, 0)), ((0, 0), (0, 1)))),
}
"""The worked example of every algorithm."""


def example_of(name: str) -> Example:
    """Return the example of an algorithm. Raises `LookupError` for an unknown name."""
    if name not in EXAMPLES:
        raise LookupError(f"no algorithm {name!r}; known: {', '.join(EXAMPLES)}")
    return EXAMPLES[name]


def files() -> Mapping[str, bytes]:
    """Return the pictures of the pages of the explanation."""
    pictures = {f"{name}-plan": _picture(name) for name in EXAMPLES}
    pictures |= {"speed": _speed(), "efficiency": _efficiency()}
    drawn = dict(power.files())
    for name, picture in pictures.items():
        drawn |= both(f"explanation/algorithms/{name}", picture)
    return drawn


# --- where the mass goes --------------------------------------------------------------------------


def plan(name: str) -> str:
    """Return the transport plan of an algorithm's example, as a picture and as a table."""
    instance = example_of(name).instance
    lines = _plan_table(name, instance)
    return "\n\n".join(
        (
            shown(f"{name}-plan", _told(name)),
            '??? note "The weights of the picture"\n\n'
            + "\n".join(f"    {line}" for line in lines.splitlines()),
        )
    )


@cache
def flows(name: str) -> tuple[Flow, ...]:
    """Return the joint law of drafts, text of L tokens, and accepted length, as flows."""
    instance, algorithm = example_of(name).instance, ALGORITHMS[name]

    def written(drafts: Drafts) -> Law[tuple[str, str, str]]:
        emitted = verification_law(algorithm, instance, drafts)
        return emitted.then(
            lambda emission: (
                after(instance.target, emission)
                .text(max(instance.length - len(emission.tokens), 0))
                .map(
                    lambda rest: (
                        _drafted(drafts),
                        _digits((emission.tokens + rest)[: instance.length]),
                        _kinds(instance)[len(emission.accepted)],
                    )
                )
            )
        )

    joint = draft_law(instance).then(written)
    return tuple(Flow(*place, mass) for place, mass in sorted(joint.items()))


def _picture(name: str) -> str:
    instance = example_of(name).instance
    inks = ("clay", "green") if instance.length == 1 else ("clay", "leaf", "green")
    kinds = _kinds(instance)
    return transport(
        flows(name),
        dict(zip(kinds[::-1], inks[::-1], strict=True)),
        title=f"{ALGORITHMS[name].title}: where the mass goes",
        told=_told(name),
        headings=("drafted", "text"),
    )


def _told(name: str) -> str:
    instance = example_of(name).instance
    kinds = _kinds(instance)
    masses = {kind: total(f.mass for f in flows(name) if f.kind == kind) for kind in kinds[::-1]}
    shares = "; ".join(f"{kind}: {mass}" for kind, mass in masses.items())
    return (
        f"Transport plan of {ALGORITHMS[name].title}: on the left what is drafted, with the law of "
        f"the drafts, on the right the first {_counted(instance.length, 'token')} of the text, "
        f"with the law of the target. Mass by what is accepted: {shares}."
    )


def _plan_table(name: str, instance: Instance) -> str:
    texts = sorted({flow.end for flow in flows(name)})
    kinds = _kinds(instance)
    rows = []
    for start in sorted({flow.start for flow in flows(name)}):
        cells = (
            ", ".join(
                f"{flow.mass} ({kinds.index(flow.kind)})"
                for flow in flows(name)
                if (flow.start, flow.end) == (start, end)
            )
            for end in texts
        )
        rows.append([f"`{start}`", *cells])
    head = ["drafted", *(f"`{text}`" for text in texts)]
    return f"In brackets is how many tokens were accepted.\n\n{table(head, rows)}"


def _kinds(instance: Instance) -> tuple[str, ...]:
    """Return the labels of the accepted lengths 0 to L, for L = 1 or 2."""
    if instance.length == 1:
        return ("corrected", "accepted")
    return ("none accepted", "one accepted", "both accepted")


def _drafted(drafts: Drafts) -> str:
    """Return drafts as the name of a node in a plan; their order is ignored, for fewer nodes."""
    return " ".join(map(_digits, sorted(drafts)))


def _digits(path: Path) -> str:
    return "".join(map(str, path))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


# --- what it costs --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Watched(Model):
    """Model that records which of its rows are read, by their contexts from the start.

    No two instances are equal, so that no cached result of a different model is used.
    """

    seen: set[Path] = None  # type: ignore[assignment]  # a field after those with defaults
    start: Path = ()

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, context: Path) -> Row:
        """Return the row, and record that it was read."""
        if self.seen is not None:
            self.seen.add(self.start + context)
        return super().__call__(context)

    def after(self, prefix: Path) -> Self:
        """Return the model after a prefix, which continues to record."""
        model = super().after(prefix)
        return replace(model, start=self.start + prefix) if prefix else model


@dataclass(frozen=True)
class Reads:
    """Least and largest number of rows of a model that one verification reads.

    `off` is true if a row is read whose context is on no drafted path.
    """

    least: int
    most: int
    off: bool


def reads(name: str) -> tuple[Reads, Reads]:
    """Return the reads of target and draft by an algorithm on its example, over all runs."""
    instance, algorithm = example_of(name).instance, ALGORITHMS[name]
    counts: tuple[list[int], list[int]] = ([], [])
    off = [False, False]
    for drafts in draft_law(instance):
        nodes = {path[:depth] for path in drafts for depth in range(instance.length + 1)}

        def run(chance: Chance, drafts: Drafts = drafts) -> tuple[frozenset[Path], ...]:
            models = [_watched(model) for model in (instance.target, instance.draft)]
            watched = replace(instance, target=models[0], draft=models[1])
            for model in models:
                model.seen.clear()
            algorithm.verify(FixedTree(drafts, watched), watched, chance)
            return tuple(frozenset(model.seen) for model in models)

        for seen, _ in enumerate_runs(run):
            for which, rows in enumerate(seen):
                counts[which].append(len(rows))
                off[which] |= bool(rows - nodes)
    first, second = (
        Reads(min(own), max(own), elsewhere) for own, elsewhere in zip(counts, off, strict=True)
    )
    return first, second


def _watched(model: Model) -> _Watched:
    return _Watched(
        model.name, model.vocabulary, model.rows, model.context_free, model.modified, seen=set()
    )


def cost(name: str) -> str:
    """Return the reads of an algorithm on its example, and its measured time."""
    found = zip(("target", "draft"), reads(name), strict=True)
    rows = [
        [which, str(own.least), str(own.most), "yes" if own.off else "no"] for which, own in found
    ]
    parts = [
        "Rows that the reference reads for one verification of the example:",
        table(
            ["rows of the", "at least", "at most", "any off the drafted paths"], rows, align="lrr"
        ),
    ]
    return "\n\n".join((*parts, *_times(name)))


def _times(name: str) -> Iterator[str]:
    measured = _decoding()
    times: dict[tuple[int, int], dict[str, float]] = {}
    for row in measured["times"]:
        size = row["drafts"], row["length"]
        times.setdefault(size, {})[row["name"]] = row["seconds"]["median"]
    forms = {
        form: told
        for form, told in ((name, "i.i.d."), (f"{name}_without_replacement", "w/o replacement"))
        if any(form in own for own in times.values())
    }
    if not forms:
        yield "It is not among the forms that were timed."
        return
    sizes, machine = measured["sizes"], measured["machine"]
    yield (
        f"Measured: the {sizes['form']} form, from probabilities, on one thread of an "
        f"{machine['cpu']}, {sizes['batch']} requests, V = {sizes['timed_vocabulary']:,}; the "
        f"median of {sizes['rounds']} rounds, and as a multiple of token verification's at that L:"
    )
    rows = []
    for (drafts, length), own in times.items():
        if all(form in own for form in forms):
            token = times[1, length]["token"]
            cells = [(f"{1e3 * own[form]:.1f}", f"{own[form] / token:.2f}") for form in forms]
            rows.append([str(drafts), str(length), *(cell for pair in cells for cell in pair)])
    several = [(f"{told}, ms", "× token") for told in forms.values()]
    heads = [("ms", "× token")] if len(forms) == 1 else several
    head = ["K", "L", *(each for pair in heads for each in pair)]
    yield table(head, rows, align="r" * len(head))


# --- what is claimed ------------------------------------------------------------------------------


_VERDICTS = {
    "mechanised": "Mechanised, for every V, L and K of the shape",
    "proved for a shape": "Proved for a shape",
    "argued": "Argued, in prose",
    "holds": "Holds on every instance that was examined",
    "refuted": "Refuted, with a counterexample",
}


def claims(*names: str) -> str:
    """Return claims of the ledger, by verdict. Raises `LookupError` for an unknown claim."""
    if unknown := [name for name in names if name not in CLAIMS]:
        raise LookupError(f"the ledger has no claim {', '.join(unknown)}")
    parts = []
    for verdict, told in _VERDICTS.items():
        own = [
            f"- [`{name}`](#claim.{name}): {flat(CLAIMS[name].stated)}"
            for name in names
            if VERDICTS[name] == verdict
        ]
        if own:
            parts.append(f"**{told}:**\n\n" + "\n".join(own))
    return "\n\n".join(parts)


# --- which one to use -----------------------------------------------------------------------------


@cache
def _decoding() -> Any:
    return json.loads(_MEASURED.read_text(encoding="utf-8"))


def fastest() -> str:
    """Return which verifier has the most tokens per second, by the quality of the draft."""
    found = _decoding()
    rows = []
    for sigma in found["sizes"]["sigma"]:
        own = [row for row in found["rows"] if row["sigma"] == sigma]
        best, token = (
            max(some, key=lambda row: row["tokens_per_second"])
            for some in (own, [row for row in own if row["name"] == "token"])
        )
        rows.append(
            [
                f"{sigma:g}",
                f"{_linked(best['name'])}, K = {best['drafts']}, L = {best['length']}",
                f"{best['block_efficiency']:.2f}",
                f"{best['tokens_per_second']:,.0f}",
                f"{token['tokens_per_second']:,.0f}",
            ]
        )
    head = ["sigma", "fastest", "tokens per iteration", "tokens per second", "token verification"]
    costs = found["costs"]
    told = (
        f"An iteration is counted as one pass of the target, {1e3 * costs['target_pass']:g} ms "
        f"however many paths it checks, one pass of the draft of {1e3 * costs['draft_pass']:g} ms "
        f"for every position, and the verification of {found['sizes']['batch']} requests as it was "
        f"measured. Each verifier has its best K and L:"
    )
    return f"{told}\n\n{table(head, rows, align='llrrr')}"


def decoding(which: str) -> str:
    """Return the picture of a measurement: "speed" or "efficiency"."""
    if which not in _MEASURES:
        raise LookupError(f"no picture {which!r}; known: {', '.join(_MEASURES)}")
    return shown(which, _MEASURES[which])


_MEASURES = {
    "speed": (
        "Tokens per second of each verifier at its best number of drafts and length, as a multiple "
        "of those of token verification at its best, against the noise of the draft"
    ),
    "efficiency": (
        "Tokens per iteration of each verifier as a multiple of those of token verification, "
        "against the noise of the draft, at the largest draft length; a panel for each number of "
        "drafts"
    ),
}

_LOOKS = {
    "token": ("muted", ""),
    "block": ("blue", ""),
    "greedy_block": ("blue", "5 3"),
    "recursive_rejection": ("gold", ""),
    "recursive_rejection_without_replacement": ("gold", "5 3"),
    "k_seq": ("muted", "5 3"),
    "spechub": ("plum", ""),
    "greedy_draft": ("plum", "5 3"),
    "multipath_block": ("green", ""),
    "mixed_multipath_block": ("green", "5 3"),
    "traversal": ("clay", ""),
    "traversal_without_replacement": ("clay", "5 3"),
    "recursive_greedy_block": ("ink", "2 2.5"),
}


def _speed() -> str:
    best: dict[str, dict[float, float]] = {}
    for row in _decoding()["rows"]:
        own = best.setdefault(row["name"], {})
        own[row["sigma"]] = max(own.get(row["sigma"], 0.0), row["tokens_per_second"])
    token = best.pop("token")
    lines = _by_token(best, token)
    return _multiples(
        [Panel("Tokens per second, × token verification", lines)],
        title="Tokens per second",
        told=_MEASURES["speed"],
        each=250,
    )


def _efficiency() -> str:
    found = _decoding()
    length = max(found["sizes"]["length"])
    rows = [row for row in found["rows"] if row["length"] == length]
    token = {row["sigma"]: row["block_efficiency"] for row in rows if row["name"] == "token"}
    drawn: list[Panel] = []
    for drafts in found["sizes"]["drafts"]:
        own: dict[str, dict[float, float]] = {}
        for row in rows:
            if row["drafts"] == drafts and row["name"] != "token":
                own.setdefault(row["name"], {})[row["sigma"]] = row["block_efficiency"]
        head = "Tokens per iteration, × token verification: " if not drawn else ""
        drawn.append(Panel(f"{head}{_counted(drafts, 'draft')}", _by_token(own, token)))
    return _multiples(drawn, title="Tokens per iteration", told=_MEASURES["efficiency"], each=150)


def _by_token(own: Mapping[str, Mapping[float, float]], token: Mapping[float, float]) -> list[Line]:
    """Return lines of multiples of the figures of token verification, by sigma."""
    lines = [Line([(0.0, 1.0), (len(token) - 1.0, 1.0)], "muted", width=1)]
    for name, by_sigma in own.items():
        ink, dashes = _LOOKS[name]
        places = enumerate(sorted(token))
        points = [(float(n), by_sigma[sigma] / token[sigma]) for n, sigma in places]
        lines.append(Line(points, ink, dashes, name=_WORDS.get(name, name.replace("_", " "))))
    return lines


def _multiples(drawn: list[Panel], *, title: str, told: str, each: float) -> str:
    sigmas = _decoding()["sizes"]["sigma"]
    heights = [y for panel in drawn for line in panel.lines for _, y in line.points]
    steps = range(int(min(heights) / 0.2), int(max(heights) / 0.2) + 2)
    ticks = {round(0.2 * step, 1): f"{0.2 * step:.1f}" for step in steps}
    named = {float(n): f"{sigma:g}" for n, sigma in enumerate(sigmas)}
    return panels(
        drawn,
        x=Axis(0, len(sigmas) - 1, named, "sigma: noise of the draft’s logits"),
        y=Axis(min(ticks), max(ticks), ticks),
        title=title,
        told=told,
        each=each,
        names=128,
    )


_WORDS = {
    "recursive_rejection": "rejection",
    "recursive_rejection_without_replacement": "rejection, w/o repl.",
    "traversal_without_replacement": "traversal, w/o repl.",
    "recursive_greedy_block": "recursive greedy",
    "multipath_block": "multi-path",
    "mixed_multipath_block": "mixed multi-path",
    "k_seq": "K-SEQ",
    "spechub": "SpecHub",
}


def _linked(form: str) -> str:
    name = form.removesuffix("_without_replacement")
    drawn = "" if name == form else ", without replacement"
    return f"[{ALGORITHMS[name].title}]({name}.md){drawn}"


COMPUTED: Mapping[str, Callable[..., str]] = {
    "claims": claims,
    "cost": cost,
    "decoding": decoding,
    "fastest": fastest,
    "plan": plan,
}
"""The forms of this module by name."""
