"""The adversarial search: hill climbing towards the instances on which an adapter is furthest off.

The fixed cases cover only anticipated faults. Here Hypothesis proposes instances: half at random,
and half by changing those whose distance came nearest to the allowed one. When an instance fails,
Hypothesis simplifies it. With the same version of Hypothesis, a seed repeats a search instance by
instance.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from draftproof.conformance.cases import Case
from draftproof.conformance.failure.counterexample import Progress
from draftproof.conformance.lanes.observe import BLINDNESS, EXACT, PROBE, observe
from draftproof.conformance.protocol.adapter import CONTIGUOUS, Declaration, Program
from draftproof.conformance.requirements.finding import FAIL, INCONCLUSIVE, PASS, SKIPPED, Finding
from draftproof.conformance.requirements.laws import LAWS, fits, judge
from draftproof.conformance.requirements.settings import PLAIN, Setting, in_setting, setting_to_json
from draftproof.reference.extras import installation
from draftproof.reference.model import (
    Instance,
    Model,
    Path,
    Row,
    instance_from_json,
    instance_to_json,
)
from draftproof.reference.rational import ZERO, rational

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

CASE = "search"
"""Name in place of a case's id in findings of the search."""

# The work of the exact lane grows with the number of ways to draw the drafts: 0.2 s for this many.
_MOST_DRAFTS = 16

# Rows with more shades than these need more examples than anybody has time for.
_MOST_PAIRS = 4

# While a failure is made simpler it keeps this distance, or half of the worst there was.
_CLEAR = rational("1/100")

# What Hypothesis has not simplified after this many more instances is left to the counterexample.
_MOST_SIMPLER = 200


class SearchUnavailable(RuntimeError):
    """Error if Hypothesis, which proposes the instances, is not installed."""


@dataclass(frozen=True)
class Sought:
    """Instance that the search tried in a setting, and the finding of a requirement on it."""

    instance: Instance
    finding: Finding
    setting: Setting = PLAIN


Tried = tuple[Instance, Setting]
"""An instance, and the setting in which it is asked."""


@dataclass(frozen=True)
class Search:
    """The result of a search.

    `worst` has, for every requirement of `LAWS` that applies to the adapter, the instance that came
    nearest to failing, or failed by most; `skipped` has the reasons of the other requirements.
    `failed` is the first requirement that failed, on the simplest instance on which it visibly
    fails; `failed_after` is the number of instances tried until the first failure.
    """

    seed: int
    lane: str
    examples: int
    """The number of different instances tried, not counting those of the simplification."""
    runs: int
    """The runs of the program under test."""
    worst: Mapping[str, Sought]
    skipped: Mapping[str, str]
    failed: Sought | None = None
    failed_after: int | None = None


def search(
    program: Program,
    *,
    examples: int,
    seed: int,
    lanes: Sequence[str] = (EXACT, PROBE),
    progress: Progress,
) -> Search:
    """Search for instances on which the laws of one row fail, or come near to it.

    Hypothesis proposes `examples` instances; an instance proposed twice is tried once. When one
    fails, the search tries at most 200 more to simplify it. The first of the `lanes` that can
    observe the adapter observes all of them. Raises `SearchUnavailable`, and `OpaqueRandomness`,
    `TooManyRuns` or `NondeterministicProgram` where no lane can observe the adapter.
    """
    require_hypothesis()
    *others, last = lanes
    for lane in others:
        with contextlib.suppress(*BLINDNESS):
            return _searched(program, examples, seed, lane, progress)
    return _searched(program, examples, seed, last, progress)


def search_findings(found: Search) -> list[Finding]:
    """Return one finding for every requirement of `LAWS`, on the worst instance of the search."""
    told = f"the worst of {found.examples} examples, seed {found.seed}"

    def finding(requirement: str) -> Finding:
        if requirement not in found.worst:
            return Finding(requirement, CASE, SKIPPED, detail=found.skipped[requirement])
        worst = found.worst[requirement].finding
        detail = f"{worst.detail}; {told}" if worst.detail else told
        return replace(worst, runs=found.runs, detail=detail)

    return [finding(requirement) for requirement in LAWS]


def search_to_json(found: Search) -> dict[str, Any]:
    """Return the `search` part of a certificate."""
    own = ("seed", "lane", "examples", "runs", "failed_after")
    return {
        **{name: getattr(found, name) for name in own},
        "worst": [
            {
                "requirement": requirement,
                "verdict": sought.finding.verdict,
                "distance": float(sought.finding.distance or 0),
                "allowed": float(sought.finding.allowed or 0),
                **_asked_to_json(sought),
            }
            for requirement, sought in found.worst.items()
        ],
        "failed": None
        if found.failed is None
        else {
            "requirement": found.failed.finding.requirement,
            **_asked_to_json(found.failed),
        },
    }


def _asked_to_json(sought: Sought) -> dict[str, Any]:
    told = setting_to_json(sought.setting)
    return {"instance": instance_to_json(sought.instance), **({"setting": told} if told else {})}


def failed_instance(document: Mapping[str, Any], requirement: str) -> Tried:
    """Return the simplest known instance that fails a requirement that failed, and its setting.

    `document` is the `search` part of a certificate.
    """
    simplest = document["failed"]
    if simplest is not None and simplest["requirement"] == requirement:
        return tried_from_json(simplest)
    return next(
        tried_from_json(each) for each in document["worst"] if each["requirement"] == requirement
    )


def tried_from_json(document: Mapping[str, Any]) -> Tried:
    """Return an instance and its setting, from a part of the record of a search."""
    return instance_from_json(document["instance"]), Setting(**document.get("setting", {}))


# --- climbing ----------------------------------------------------------------------------


def require_hypothesis() -> None:
    """Raise `SearchUnavailable` where Hypothesis is not installed."""
    try:
        import hypothesis  # noqa: F401  # whether it is there is the question
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise SearchUnavailable(f"it needs Hypothesis: {installation('search')}") from None


@dataclass
class _Log:
    """The record of a search so far: the findings of every instance, in order."""

    program: Program
    lane: str
    findings: dict[Tried, list[Finding]] = field(default_factory=dict)

    def judged(self, tried: Tried) -> list[Finding]:
        """Return the findings on an instance in its setting, from the log if it was judged."""
        if tried not in self.findings:
            instance, setting = tried
            case = Case(CASE, "", "certify", instance)
            try:
                seen = observe(in_setting(self.program, setting), case, lane=self.lane)
            except BLINDNESS:
                if setting == PLAIN:
                    raise
                # What a lane cannot see in a setting says nothing of the others.
                self.findings[tried] = []
            else:
                self.findings[tried] = judge(seen)
        return self.findings[tried]

    def worst(self) -> dict[str, Sought]:
        """Return the worst finding of every requirement, the first one among equals."""
        worst: dict[str, Sought] = {}
        for (instance, setting), findings in self.findings.items():
            for finding in findings:
                known = worst.get(finding.requirement)
                measured = finding.verdict != SKIPPED
                if measured and (known is None or badness(finding) > badness(known.finding)):
                    worst[finding.requirement] = Sought(instance, finding, setting)
        return worst

    def failed_after(self) -> int | None:
        """Return the number of instances tried until the first failure."""
        failing = (any(f.verdict == FAIL for f in found) for found in self.findings.values())
        return next((count for count, fails in enumerate(failing, start=1) if fails), None)


def badness(finding: Finding) -> tuple[int, float]:
    """Return the rank of a measured finding: its verdict, then its distance over the allowed one.

    Raises `ValueError` if nothing was measured.
    """
    if finding.distance is None or finding.allowed is None:
        raise ValueError(f"{finding.requirement} on {finding.case}: nothing was measured")
    share = float(finding.distance / finding.allowed)
    return (PASS, INCONCLUSIVE, FAIL).index(finding.verdict), share


def _searched(program: Program, examples: int, seed: int, lane: str, progress: Progress) -> Search:
    log = _Log(program, lane)
    _climb(log, examples, seed, lambda _: False, progress)
    tried, after, worst = len(log.findings), log.failed_after(), log.worst()
    skips = {f.requirement: f.detail for found in log.findings.values() for f in found}
    skipped = {requirement: skips[requirement] for requirement in LAWS if requirement not in worst}
    failing = [worst[r] for r in LAWS if r in worst and worst[r].finding.verdict == FAIL]
    failed = _simplest(log, failing[0], examples, seed, progress) if failing else None
    runs = sum(findings[0].runs for findings in log.findings.values() if findings)
    return Search(seed, lane, tried, runs, worst, skipped, failed, after)


def _simplest(log: _Log, worst: Sought, examples: int, seed: int, progress: Progress) -> Sought:
    """Return the simplest instance on which a requirement visibly fails.

    This function repeats the search with the known findings up to the first such instance, which
    Hypothesis then simplifies.
    """
    requirement, distance = worst.finding.requirement, worst.finding.distance or ZERO
    clear = min(_CLEAR, distance / 2)
    simplest = worst

    def is_clear(finding: Finding) -> bool:
        failed = finding.requirement == requirement and finding.verdict == FAIL
        return failed and finding.distance is not None and finding.distance >= clear

    def fails(tried: Tried) -> bool:
        nonlocal simplest
        found = [finding for finding in log.judged(tried) if is_clear(finding)]
        # Hypothesis tries nothing that is not simpler than the last one that failed.
        simplest = Sought(tried[0], found[0], tried[1]) if found else simplest
        return bool(found)

    _climb(log, examples, seed, fails, progress)
    return simplest


class _Failed(Exception):
    """Raised on an instance that fails, to make Hypothesis simplify it."""


class _Stopped(BaseException):
    """Raised to end the search. Not an `Exception`, which Hypothesis would take for a failure."""


def _climb(
    log: _Log, examples: int, seed: int, fails: Callable[[Tried], bool], progress: Progress
) -> None:
    """Let Hypothesis propose instances, climb, and simplify what `fails`, on a fixed budget."""
    import hypothesis

    steps = iter(progress(range(examples), examples, "search"))
    budget = len(log.findings) + (_MOST_SIMPLER if log.findings else examples)

    def attempt(tried: Tried) -> None:
        if tried not in log.findings and len(log.findings) == budget:
            raise _Stopped
        next(steps, None)
        try:
            findings = log.judged(tried)
        except BLINDNESS as error:
            raise _Stopped from error
        if fails(tried):
            raise _Failed
        for finding in findings:
            if finding.verdict != SKIPPED:
                hypothesis.target(badness(finding)[1], label=finding.requirement)

    attempt = hypothesis.given(_tried(log))(attempt)
    attempt = hypothesis.settings(
        max_examples=examples,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.target, hypothesis.Phase.shrink],
        # Repeatable: nothing is remembered, nothing is timed, nothing depends on the machine.
        database=None,
        derandomize=False,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
    )(attempt)
    with _elsewhere():
        try:
            hypothesis.seed(seed)(attempt)()
        except _Failed:
            pass
        except _Stopped as stopped:
            if stopped.__cause__ is not None:
                raise stopped.__cause__ from None
        finally:
            deque(steps, maxlen=0)


def _tried(log: _Log) -> SearchStrategy[Tried]:
    """Return the strategy of instances in their settings."""
    from hypothesis import strategies as st

    declared = log.program.declared
    around = settings(declared) if _stays_certain(log) else st.just(PLAIN)
    # Hypothesis varies what it draws first by most.
    return st.tuples(around, instances(declared)).map(lambda drawn: (drawn[1], drawn[0]))


def _stays_certain(log: _Log) -> bool:
    """Return True if the verifier treats certain rows as such; if not, its runs would multiply."""
    sure: Row = (rational(1), rational(0))
    certain = _instance(log.program.declared, [sure], [sure], 2, 1)
    case = Case(CASE, "", "certify", certain)
    seen = observe(log.program, case, lane=log.lane)
    return all(len(law) == 1 for law in seen.observed.values())


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Keep the files that Hypothesis writes out of the user's folder."""
    from hypothesis.configuration import set_hypothesis_home_dir

    with TemporaryDirectory() as folder:
        set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            set_hypothesis_home_dir(None)


# --- instances ---------------------------------------------------------------------------


def instances(declared: Declaration) -> SearchStrategy[Instance]:
    """Return the strategy of small instances that an adapter takes.

    V is 2..4 (one token has one row, and a fixed case), L is 1..3, K is 1, or 2 where adapter and
    algorithm take two drafts. All numbers drawn are below 100: among larger numbers Hypothesis
    sometimes picks a constant from a module that happens to be loaded, and then no seed repeats the
    search.
    """
    from hypothesis import strategies as st

    shapes = [
        (v, n, k)
        for v, n, k in product(range(2, 5), range(1, 4), (1, 2))
        if v ** (n * k) <= _MOST_DRAFTS and _takes(declared, v, n, k)
    ]

    @st.composite
    def drawn(draw: DrawFn) -> Instance:
        vocabulary, length, drafts = draw(st.sampled_from(shapes))
        pair = _pairs(vocabulary, _grid(declared))
        pairs = draw(st.lists(pair, min_size=1, max_size=_MOST_PAIRS))
        targets, draws = zip(*pairs, strict=True)
        return _instance(declared, targets, draws, length, drafts)

    return drawn()


def settings(declared: Declaration) -> SearchStrategy[Setting]:
    """Return the strategy of settings that an adapter takes, most dimensions plain."""
    from hypothesis import strategies as st

    @st.composite
    def drawn(draw: DrawFn) -> Setting:
        def one_of(plain: Any, *others: Any) -> Any:
            return draw(st.sampled_from([*[plain] * len(others), *others])) if others else plain

        dtypes = [each for each in declared.dtypes if _is_longer(each, declared.dtype)]
        layouts = [each for each in declared.layouts if each != CONTIGUOUS]
        layout, dtype = one_of("", *layouts), one_of("", *dtypes)
        if declared.noise:
            # Its noise has the shape of what is asked.
            return Setting(layout=layout, dtype=dtype)
        rows = one_of(1, 2, 6, 33, 65) if declared.batch else 1
        before = one_of(0, 1, 4, 7, 30) if declared.max_drafts == 1 else 0
        wide = (1021, 2**15) if rows * (before + 4) <= _MOST_WIDE else ()
        return Setting(
            before=before,
            rows=rows,
            row=draw(st.sampled_from([0, rows // 2, rows - 1])),
            tokens=one_of(0, *wide),
            calls=one_of(0, 1, 2, 3),
            layout=layout,
            dtype=dtype,
            generator=draw(st.sampled_from([True, False])),
        )

    return drawn()


_MOST_WIDE = 16
"""Maximum number of rows of a large vocabulary in a request."""


def _is_longer(dtype: str, own: str) -> bool:
    """Return True if a different dtype has exactly all rows that an adapter's own dtype has."""
    return dtype != own and _DIGITS[dtype] >= _DIGITS[own]


def _takes(declared: Declaration, vocabulary: int, length: int, drafts: int) -> bool:
    rows = [(rational(1) / vocabulary,) * vocabulary]
    instance = _instance(declared, rows, rows, length, drafts)
    return fits(Case(CASE, "", "certify", instance), declared)


def _instance(
    declared: Declaration, p: Sequence[Row], q: Sequence[Row], length: int, drafts: int
) -> Instance:
    return Instance(
        _model("target", p, length),
        _model("draft", q, length - 1),
        length=length,
        drafts=drafts,
        scheme=declared.scheme if drafts > 1 else "iid",
    )


def _grid(declared: Declaration) -> int:
    """Return the number that all shares of a row sum to: a power of two, so that floats are exact.

    Ratios reach 2**20 where the dtype has enough digits; probabilities that become logits stay
    above 1/2048, as chapter 11 requires.
    """
    digits = _DIGITS[declared.dtype]
    return 1 << (min(digits, 11) if declared.logits else digits)


_DIGITS = {"float64": 20, "float32": 20, "float16": 11, "bfloat16": 8}
"""The binary digits of a share that are used, by dtype."""


def _pairs(vocabulary: int, grid: int) -> SearchStrategy[tuple[Row, Row]]:
    """Return the strategy of a target's row and the draft's.

    The draft's row is independent of the target's, equal to it, near it, or certain of its most
    probable token.
    """
    from hypothesis import strategies as st

    token = st.integers(0, vocabulary - 1)
    exponent = st.integers(0, grid.bit_length() - 2)
    # A digit of 0 is a zero, equal shares are ties.
    share = st.builds(lambda digit, e: digit << e, st.integers(0, 16), exponent)
    spread = st.lists(share, min_size=vocabulary, max_size=vocabulary)

    @st.composite
    def moved(draw: DrawFn, shares: list[int]) -> list[int]:
        source, sink, some = draw(token), draw(token), 1 << draw(exponent)
        some = min(some, shares[source])
        shares = list(shares)
        shares[source] -= some
        shares[sink] += some
        return shares

    @st.composite
    def row(draw: DrawFn) -> list[int]:
        if draw(st.booleans()):
            return _on_grid(draw(spread), grid)
        # Certain, but for what is moved to another token.
        return draw(moved(_certain(draw(token), vocabulary, grid)))

    @st.composite
    def pair(draw: DrawFn) -> tuple[Row, Row]:
        target = draw(row())
        certain = _certain(target.index(max(target)), vocabulary, grid)
        kinds = (row(), moved(target), st.just(target), st.just(certain))
        return _row(target), _row(draw(draw(st.sampled_from(kinds))))

    return pair()


def _certain(token: int, vocabulary: int, grid: int) -> list[int]:
    return [grid if each == token else 0 for each in range(vocabulary)]


def _on_grid(shares: Sequence[int], grid: int) -> list[int]:
    """Return the shares scaled to sum to `grid`; positive shares stay positive."""
    if not any(shares):
        return _certain(0, len(shares), grid)
    scaled = [max(share * grid // sum(shares), 1) if share else 0 for share in shares]
    # What rounding leaves over, or took too much, is least felt by the largest.
    scaled[scaled.index(max(scaled))] += grid - sum(scaled)
    return scaled


def _row(shares: Sequence[int]) -> Row:
    return tuple(rational(share) / sum(shares) for share in shares)


def _model(name: str, rows: Sequence[Row], depth: int) -> Model:
    """Return the model that picks its rows by depth and by the tokens written so far."""
    vocabulary = len(rows[0])
    if len(rows) == 1:
        return Model(name, vocabulary, {(): rows[0]}, context_free=True)

    def at(context: Path) -> Row:
        return rows[(len(context) + sum(context)) % len(rows)]

    contexts = (c for size in range(depth + 1) for c in product(range(vocabulary), repeat=size))
    return Model(name, vocabulary, {context: at(context) for context in contexts})
