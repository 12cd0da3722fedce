"""Drafters that declare what they draw, and drafters that declare something else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.conformance.lanes.exchange import Failure
from draftproof.conformance.protocol.adapter import (
    DraftRequest,
    DraftResult,
    Request,
    Result,
    declaration,
    program_of,
)
from draftproof.conformance.protocol.reference import ReferenceVerifier
from draftproof.conformance.requirements.drafting import (
    DraftedRows,
    DraftObservation,
    DraftSetting,
    declared_law,
    draft_declared,
    draft_joint,
    draft_request,
    judge,
    observe_drafting,
    scheme_of,
    settings,
    tasks,
)
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding
from draftproof.conformance.requirements.task import Terms
from draftproof.reference.law import Law
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import ALGORITHMS


class Drafter:
    """Draws K paths of independent tokens from the processed rows, with every step open."""

    version, algorithm = "1", "recursive_rejection"
    scheme = "iid"
    max_drafts = 2

    def __init__(self, **attributes: Any) -> None:
        self.name = type(self).__name__
        self.__dict__.update(attributes)

    def verify(self, request: Request) -> Result:
        raise NotImplementedError

    def draft(self, request: DraftRequest) -> DraftResult:
        drawn = torch.zeros(request.rows * request.drafts, 0, dtype=torch.int64)
        declared = []
        for _ in range(request.length):
            raw = request.next_probs(drawn)
            rows = self.processed(raw, request)
            token = self.first(rows, request) if drawn.shape[1] == 0 else self.draw(rows)
            declared.append(self.declared(rows, raw, token))
            drawn = torch.cat([drawn, token[:, None]], 1)
        shape = request.rows, request.drafts, request.length
        return self.shaped(drawn.view(shape), torch.stack(declared, 1).view(*shape, -1))

    def processed(self, raw: Tensor, request: DraftRequest) -> Tensor:
        if request.temperature == 0:
            return torch.zeros_like(raw).scatter(1, raw.argmax(1, keepdim=True), 1.0)
        rows = (raw.log() / request.temperature).softmax(-1)
        ranked, tokens = rows.sort(dim=-1, descending=True, stable=True)
        cut = ranked.cumsum(-1) - ranked >= request.top_p
        if request.top_k:
            cut = cut | (torch.arange(raw.shape[-1]) >= request.top_k)
        kept = torch.zeros_like(rows).scatter(1, tokens, ranked.masked_fill(cut, 0.0))
        return kept / kept.sum(-1, keepdim=True)

    def first(self, rows: Tensor, request: DraftRequest) -> Tensor:
        return self.draw(rows)

    def draw(self, rows: Tensor) -> Tensor:
        return torch.multinomial(rows, 1)[:, 0]

    def declared(self, rows: Tensor, raw: Tensor, token: Tensor) -> Tensor:
        return rows

    def shaped(self, tokens: Tensor, rows: Tensor) -> DraftResult:
        return DraftResult(tokens, rows)


# --- right ---------------------------------------------------------------------------------


class InverseCdf(Drafter):
    def draw(self, rows: Tensor) -> Tensor:
        cumulative = rows.cumsum(-1)
        return (cumulative <= torch.rand(len(rows), 1) * cumulative[:, -1:]).sum(-1)


class Gumbel(Drafter):
    def draw(self, rows: Tensor) -> Tensor:
        return (rows.log() - torch.empty_like(rows).exponential_().log()).argmax(-1)


class WithoutReplacement(Drafter):
    """The K largest of log q plus Gumbel noise: siblings without replacement, in drawing order."""

    scheme = "without_replacement"

    def first(self, rows: Tensor, request: DraftRequest) -> Tensor:
        roots = rows[:: request.drafts]
        return torch.multinomial(roots, request.drafts).flatten()


class GreedySiblings(Drafter):
    """The most probable token, and another one drawn from the rest."""

    scheme, algorithm = "greedy", "greedy_draft"

    def first(self, rows: Tensor, request: DraftRequest) -> Tensor:
        if request.drafts == 1:
            return self.draw(rows)
        roots = rows[:: request.drafts]
        top = roots.argmax(-1, keepdim=True)
        others = roots.scatter(1, top, 0.0)
        return torch.cat([top, torch.multinomial(others, 1)], 1).flatten()


class DeclaresItsChoice(Drafter):
    """Every token is declared as certain, which it is once it is drawn. One path only."""

    max_drafts = 1

    def declared(self, rows: Tensor, raw: Tensor, token: Tensor) -> Tensor:
        return torch.zeros_like(rows).scatter(1, token[:, None], 1.0)


class RandomTemperature(Drafter):
    """A coin decides how hot the first row is; what is declared is what was drawn from."""

    max_drafts = 1

    def processed(self, raw: Tensor, request: DraftRequest) -> Tensor:
        rows = super().processed(raw, request)
        return rows if torch.rand(()) < 0.25 else rows.square() / rows.square().sum(-1, True)


# --- wrong ---------------------------------------------------------------------------------


class DeclaresRaw(Drafter):
    """HF #47932: drafts are drawn after top-k, and q is the raw softmax."""

    def declared(self, rows: Tensor, raw: Tensor, token: Tensor) -> Tensor:
        return raw


class CutsBeforeItHeats(Drafter):
    """Draws from what top-p keeps of the raw row, heated; declares what it keeps of a hot one."""

    def processed(self, raw: Tensor, request: DraftRequest) -> Tensor:
        self.asked = request
        cut = super().processed(raw, replace(request, temperature=1.0))
        return super().processed(cut, replace(request, top_k=0, top_p=1.0))

    def declared(self, rows: Tensor, raw: Tensor, token: Tensor) -> Tensor:
        return super().processed(raw, self.asked)


class Argmax(Drafter):
    """The most probable token, declared as a draw."""

    def draw(self, rows: Tensor) -> Tensor:
        return rows.argmax(-1)


class DrawsInBfloat16(Drafter):
    def draw(self, rows: Tensor) -> Tensor:
        return torch.multinomial(rows.bfloat16().float(), 1)[:, 0]


class BestOfTwo(Drafter):
    """The more probable of two tokens, declared as one."""

    def draw(self, rows: Tensor) -> Tensor:
        pair = torch.multinomial(rows, 2, replacement=True)
        best = rows.gather(1, pair).argmax(1, keepdim=True)
        return pair.gather(1, best)[:, 0]


class RowBefore(Drafter):
    """Every token is declared with the row of the one before it."""

    def shaped(self, tokens: Tensor, rows: Tensor) -> DraftResult:
        return DraftResult(tokens, torch.cat([rows[:, :, :1], rows[:, :, :-1]], 2))


class SaysIid(WithoutReplacement):
    """Draws K tokens without replacement and says that they are independent."""

    scheme = "iid"


class OnePathForAll(Drafter):
    def shaped(self, tokens: Tensor, rows: Tensor) -> DraftResult:
        return DraftResult(tokens[:, :1].expand_as(tokens), rows[:, :1].expand_as(rows))


class SharedNoise(Drafter):
    """All paths are drawn with the same uniform numbers: each is right, together they are not."""

    def draw(self, rows: Tensor) -> Tensor:
        return (rows.cumsum(-1) <= torch.rand(1, 1)).sum(-1).clamp(max=rows.shape[-1] - 1)


class TwoTrees(Drafter):
    """Each path declares its own tokens as certain: no single tree was drawn from."""

    def declared(self, rows: Tensor, raw: Tensor, token: Tensor) -> Tensor:
        return torch.zeros_like(rows).scatter(1, token[:, None], 1.0)


# --- trees ---------------------------------------------------------------------------------


class Trees(Drafter):
    """Draws the siblings of every node together, depth by depth, in the order of the leaves."""

    trees, max_drafts = True, 4

    def draft(self, request: DraftRequest) -> DraftResult:
        widths = request.branching or (request.drafts, *(1,) * (request.length - 1))
        drawn = torch.zeros(request.rows, 0, dtype=torch.int64)
        declared: list[Tensor] = []
        for width in widths:
            rows = self.processed(request.next_probs(drawn), request)
            siblings = self.siblings(rows, drawn, width)
            declared = [each.repeat_interleave(width, 0) for each in (*declared, rows)]
            drawn = torch.cat([drawn.repeat_interleave(width, 0), siblings.reshape(-1, 1)], 1)
        shape = request.rows, request.drafts, request.length
        return self.shaped(drawn.view(shape), torch.stack(declared, 1).view(*shape, -1))

    def siblings(self, rows: Tensor, nodes: Tensor, width: int) -> Tensor:
        return torch.multinomial(rows, width, replacement=self.scheme == "iid")


class RoundsByOutcome(Trees):
    """Declares rows that differ in the last bit, depending on what was drawn: as kernels may."""

    def draft(self, request: DraftRequest) -> DraftResult:
        drafted = super().draft(request)
        up = (drafted.draft_tokens.sum(-1) % 2)[..., None, None] * 2.0**-23
        return DraftResult(drafted.draft_tokens, drafted.draft_probs * (1 + up))


class TreesWithoutReplacement(Trees):
    scheme = "without_replacement"


class IndependentPaths(Drafter):
    """Draws K independent paths, whatever tree is asked for."""

    trees, max_drafts = True, 4


class LeavesInAnotherOrder(Trees):
    """Lists the first children of all nodes before the second ones."""

    def shaped(self, tokens: Tensor, rows: Tensor) -> DraftResult:
        if tokens.shape[1] == 4:
            order = torch.tensor([0, 2, 1, 3])
            tokens, rows = tokens[:, order], rows[:, order]
        return DraftResult(tokens, rows)


class CopiesShareTheirChildren(Trees):
    """Draws once after equal nodes, though each copy has children of its own."""

    def siblings(self, rows: Tensor, nodes: Tensor, width: int) -> Tensor:
        drawn = super().siblings(rows, nodes, width)
        if len(nodes) == 2:
            same = (nodes[0] == nodes[1]).all()
            drawn = torch.where(same & (torch.arange(2)[:, None] == 1), drawn[0], drawn)
        return drawn


class ChildrenOfOneNode(Trees):
    """Draws all children from the row after the first node."""

    def siblings(self, rows: Tensor, nodes: Tensor, width: int) -> Tensor:
        return super().siblings(rows[:1].expand_as(rows), nodes, width)


class TreesSaidToBeIid(Trees):
    """Draws siblings without replacement below the root, and says that they are independent."""

    def siblings(self, rows: Tensor, nodes: Tensor, width: int) -> Tensor:
        return torch.multinomial(rows, width, replacement=nodes.shape[1] == 0)


def of_trees(adapter: Any, option: str = "plain") -> dict[tuple[str, str], str]:
    """Return the verdicts on the trees of one option, by their shape and requirement."""
    program = program_of(adapter)
    return {
        (task.case.split(".")[3], finding.requirement): finding.verdict
        for task in tasks(program.declared, "standard")
        if ".b" in task.case and task.case.endswith(f".{option}")
        for finding in task.judge(program, Terms("exact", "standard"))
    }


@pytest.mark.requirement("draft.declared", "draft.joint")
@pytest.mark.parametrize(
    "right",
    [
        Trees(),
        RoundsByOutcome(),
        TreesWithoutReplacement(),
        ReferenceVerifier(ALGORITHMS["recursive_rejection"]),
        ReferenceVerifier(ALGORITHMS["greedy_draft"]),
    ],
    ids=lambda drafter: f"{drafter.name}-{type(drafter).__name__}-{drafter.scheme}",
)
@pytest.mark.parametrize("option", ["plain", "hot"])
def test_trees_that_are_drawn_as_they_are_declared_pass(right: Any, option: str) -> None:
    assert of_trees(right, option) == {
        (shape, requirement): PASS
        for shape in ("b1x2", "b2x2")
        for requirement in ("draft.declared", "draft.joint")
    }


@pytest.mark.requirement("draft.declared", "draft.joint")
@pytest.mark.parametrize(
    ("wrong", "declared", "joint"),
    [
        (IndependentPaths(), set(), {"b1x2", "b2x2"}),
        (LeavesInAnotherOrder(), set(), {"b2x2"}),
        (CopiesShareTheirChildren(), set(), {"b2x2"}),
        (ChildrenOfOneNode(), {"b2x2"}, {"b2x2"}),
        # The second of two tokens that differ is drawn less evenly than the first.
        (TreesSaidToBeIid(), {"b1x2", "b2x2"}, {"b1x2", "b2x2"}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_trees_that_are_drawn_otherwise_fail(
    wrong: Drafter, declared: set[str], joint: set[str]
) -> None:
    found = of_trees(wrong)
    failing = {
        requirement: {
            shape for (shape, r), verdict in found.items() if (r, verdict) == (requirement, FAIL)
        }
        for requirement in ("draft.declared", "draft.joint")
    }
    assert failing == {"draft.declared": declared, "draft.joint": joint}


def test_who_takes_no_trees_or_fewer_paths_is_not_asked_for_them() -> None:
    def shapes(**attributes: Any) -> set[str]:
        asked = settings(declaration(Drafter(**attributes)))
        return {setting.id.split(".")[3] for setting in asked if setting.branching is not None}

    assert shapes(max_drafts=4) == set()
    assert shapes(max_drafts=2, trees=True) == {"b1x2"}
    assert shapes(max_drafts=4, trees=True) == {"b1x2", "b2x2"}
    assert shapes(max_drafts=4, trees=True, scheme="hub") == {"b1x2", "b2x2"}


def test_a_drafter_is_told_of_a_tree_only_where_there_is_one() -> None:
    declared = declaration(Drafter(max_drafts=4, trees=True))
    told = {s.id: draft_request(s, declared) for s in settings(declared)}
    assert told["draft.v2.l2.b2x2.plain"].branching == (2, 2)
    assert (told["draft.v2.l2.b2x2.plain"].drafts, told["draft.v2.l2.b2x2.plain"].length) == (4, 2)
    assert told["draft.v3.l2.k2.plain"].branching is None
    assert (told["draft.v3.l2.k2.plain"].drafts, told["draft.v3.l2.k2.plain"].length) == (2, 2)


def found(adapter: Any, lane: str = "exact", only: str = "") -> dict[str, list[Finding]]:
    """Return the findings of the quick settings by requirement."""
    program = program_of(adapter)
    findings: dict[str, list[Finding]] = {"draft.declared": [], "draft.joint": []}
    for task in tasks(program.declared, "quick"):
        if only in task.case:
            for finding in task.judge(program, Terms(lane, "quick")):
                assert finding.case == task.case
                findings[finding.requirement].append(finding)
    return findings


def verdicts(findings: Iterable[Finding]) -> set[str]:
    return {finding.verdict for finding in findings}


@pytest.mark.requirement("draft.declared", "draft.joint")
@pytest.mark.parametrize(
    "right",
    [
        Drafter(),
        Drafter(dtype=torch.float64),
        InverseCdf(),
        Gumbel(),
        WithoutReplacement(),
        GreedySiblings(),
        DeclaresItsChoice(),
        RandomTemperature(),
    ],
    ids=lambda drafter: drafter.name,
)
def test_what_is_drawn_and_declared_alike_passes(right: Drafter) -> None:
    for requirement, findings in found(right).items():
        assert findings
        for finding in findings:
            assert (requirement, finding.verdict, finding.detail) == (requirement, PASS, "")


SHAPED = {"cold", "hot", "greedy", "top-k", "top-p", "hot-top-p", "all"}
RANDOM = {"plain", "cold", "hot", "top-k", "top-p", "hot-top-p", "all"}


@pytest.mark.requirement("draft.declared", "draft.joint")
@pytest.mark.parametrize(
    ("wrong", "one_path", "declared", "joint"),
    [
        (DeclaresRaw(), SHAPED, SHAPED, SHAPED),
        (Argmax(), RANDOM, RANDOM, RANDOM),
        # Rows in 16ths are exact in bfloat16, and 1/6, 1/6, 2/3 are rounded alike.
        (
            DrawsInBfloat16(),
            RANDOM - {"plain"},
            {"hot", "hot-top-p", "all"},
            {"hot", "hot-top-p", "all"},
        ),
        (CutsBeforeItHeats(), {"hot-top-p"}, set(), set()),
        (BestOfTwo(), RANDOM, RANDOM, RANDOM),
        (RowBefore(), {*RANDOM, "greedy"}, set(), set()),
        (SaysIid(), set(), RANDOM, RANDOM),
        (OnePathForAll(), set(), set(), RANDOM),
        (SharedNoise(), set(), set(), RANDOM),
        (TwoTrees(), set(), set(), RANDOM),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_is_declared_otherwise_fails(
    wrong: Drafter, one_path: set[str], declared: set[str], joint: set[str]
) -> None:
    """The first set of options fails on one path of two tokens, the others on two of one."""
    program = program_of(wrong)
    failing: dict[tuple[int, str], set[str]] = {(1, "draft.declared"): set()}
    for task in tasks(program.declared, "quick"):
        drafts, option = (2 if ".k2." in task.case else 1), task.case.rpartition(".")[2]
        if (drafts, option) == (2, "greedy") and isinstance(wrong, SaysIid):
            continue  # there are no two different tokens to draw
        for finding in task.judge(program, Terms("exact", "quick")):
            failing.setdefault((drafts, finding.requirement), set())
            if finding.verdict == FAIL:
                failing[drafts, finding.requirement].add(option)
                assert finding.detail.startswith("drafts [")
                assert " with probability " in finding.detail
    assert failing == {
        (1, "draft.declared"): one_path,
        (1, "draft.joint"): one_path,
        (2, "draft.declared"): declared,
        (2, "draft.joint"): joint,
    }


def test_a_failure_says_what_is_drawn_and_what_was_declared() -> None:
    (finding,) = found(BestOfTwo(max_drafts=1), only="k1.plain")["draft.declared"]
    assert finding.detail == (
        "drafts [1, 0] with probability 0.351563, the declared rows (0.25, 0.375, 0.375); "
        "(0.5, 0.375, 0.125) say 0.1875"
    )


@pytest.mark.requirement("draft.declared", "draft.joint")
@pytest.mark.parametrize(
    ("draft", "what"),
    [
        (lambda tokens, rows: DraftResult(tokens[0], rows), "DraftResult.draft_tokens must have"),
        (lambda tokens, rows: DraftResult(tokens, rows[..., :2]), "DraftResult.draft_probs must"),
        (lambda tokens, rows: DraftResult(tokens + 3, rows), "drafts token "),
        (lambda tokens, rows: DraftResult(tokens, rows / 2), "declares a row that sums to 0.5"),
        (lambda tokens, rows: DraftResult(tokens, rows * torch.nan), "which is no law"),
        (lambda tokens, rows: 1 / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_no_draft_fails_and_says_why(draft: Any, what: str) -> None:
    class Broken(Drafter):
        def shaped(self, tokens: Tensor, rows: Tensor) -> DraftResult:
            return draft(tokens, rows)  # type: ignore[no-any-return]

    for findings in found(Broken(max_drafts=1), only="k1.plain").values():
        (finding,) = findings
        assert finding.verdict == FAIL
        assert finding.distance == 1
        assert what in finding.detail


@pytest.mark.requirement("draft.declared")
def test_a_drafter_that_cannot_be_followed_is_probed() -> None:
    class Numpy(Drafter):
        """Draws from a running sum in numpy."""

        max_drafts = 1

        def draw(self, rows: Tensor) -> Tensor:
            marks = torch.rand(len(rows), dtype=torch.float64).numpy()
            sums = rows.double().cumsum(-1).numpy()
            return torch.from_numpy((sums <= marks[:, None] * sums[:, -1:]).sum(-1))

    class Squared(Numpy):
        def draw(self, rows: Tensor) -> Tensor:
            return super().draw(rows.square())

    right = found(Numpy(), lane="probe", only="k1.cold")
    wrong = found(Squared(), lane="probe", only="k1.cold")
    assert verdicts(right["draft.declared"]) == {PASS}
    assert verdicts(wrong["draft.declared"]) == {FAIL}


def test_settings_leave_tokens_enough_for_every_path() -> None:
    for scheme, most in (("iid", 3), ("without_replacement", 3), ("hub", 2), ("greedy", 3)):
        asked = list(settings(declaration(Drafter(scheme=scheme, max_drafts=4))))
        assert max(setting.drafts for setting in asked) == most
        assert len({setting.id for setting in asked}) == len(asked)
        for setting in asked:
            if scheme != "iid" and setting.drafts > 1:
                assert setting.temperature > 0
                assert setting.top_p == 1
                assert setting.top_k == 0 or setting.top_k >= setting.drafts


def test_who_has_no_drafter_is_not_asked() -> None:
    class Verifier:
        name, version, algorithm = "verifier", "1", "token"

        def verify(self, request: Request) -> Result:
            raise NotImplementedError

    assert list(tasks(declaration(Verifier()), "standard")) == []


# --- laws made by hand ---------------------------------------------------------------------

HALF, QUARTER = rational("1/2"), rational("1/4")
EVEN, ONE, TWO = (HALF, HALF), (rational(1), rational(0)), (rational(0), rational(1))


def observation(law: Any, widths: tuple[int, ...] = (1,), scheme: str = "iid") -> DraftObservation:
    return DraftObservation(
        case="made",
        scheme=scheme,
        widths=widths,
        law=Law(law),
        runs=1,
        slack=rational(0),
        allowed=rational("1/1000000"),
    )


def single(row: Any, token: int) -> DraftedRows:
    return DraftedRows((((row,), (token,)),))


@pytest.mark.requirement("draft.declared")
def test_a_row_may_depend_on_chance_but_not_on_the_token() -> None:
    law = {single(EVEN, 0): QUARTER, single(EVEN, 1): QUARTER, single(ONE, 0): HALF}
    assert draft_declared(observation(law)) == 0
    # The same tokens; but where the sure row is declared it is not sure.
    law = {single(EVEN, 0): HALF, single(ONE, 1): HALF}
    assert draft_declared(observation(law)) == HALF + HALF / 2


@pytest.mark.requirement("draft.declared")
def test_tokens_that_are_declared_and_never_drawn_count() -> None:
    seen = observation({single(EVEN, 0): rational(1)})
    law = declared_law(seen.law, scheme_of(seen))
    assert law[single(EVEN, 0)] == HALF
    assert law.probability(lambda each: isinstance(each, Failure)) == HALF
    assert draft_declared(seen) == HALF


@pytest.mark.requirement("draft.declared")
def test_failures_count_in_full() -> None:
    law = {single(ONE, 0): QUARTER, Failure("raised X"): rational("3/4")}
    assert draft_declared(observation(law)) == rational("3/4")
    assert judge(observation(law))[0].verdict == FAIL


@pytest.mark.requirement("draft.declared", "draft.joint")
def test_the_second_of_two_siblings_has_its_own_law() -> None:
    """Without replacement of two tokens, both orders are as probable as the first token."""
    row = (QUARTER, rational("3/4"))
    law = {
        DraftedRows((((row, row), (0, 1)),)): QUARTER,
        DraftedRows((((row, row), (1, 0)),)): rational("3/4"),
    }
    assert draft_joint(observation(law, (2,), "without_replacement")) == 0
    assert draft_declared(observation(law, (2,), "without_replacement")) == 0
    # As i.i.d. drafts they should agree with probability 1/16 + 9/16.
    assert draft_joint(observation(law, (2,))) == rational("5/8")
    # The second is 0 with probability 3/4 instead of 1/4.
    assert draft_declared(observation(law, (2,))) == HALF


@pytest.mark.requirement("draft.joint")
def test_a_row_must_not_know_what_was_drawn_for_another_path() -> None:
    """A mask that lets branches of a tree see each other: each path is right, together they lie."""
    law: dict[DraftedRows | Failure, Any] = {}
    for first in ((0, 0), (0, 1), (1, 0), (1, 1)):
        # The row after a token says whether both paths have it; the token is drawn from that row.
        row = ONE if first[0] == first[1] else TWO
        tokens = (0, 0) if row == ONE else (1, 1)
        law[DraftedRows((((EVEN, EVEN), first), ((row, row), tokens)))] = QUARTER
    seen = observation(law, (2, 1))
    assert draft_declared(seen) == 0
    # Apart, both rows are even chances given the token; one node has one row, two have their own.
    assert draft_joint(seen) == HALF + QUARTER / 2


def test_what_is_observed_is_the_joint_law() -> None:
    setting = next(s for s in settings(declaration(Drafter())) if s.id == "draft.v3.l1.k2.plain")
    assert isinstance(setting, DraftSetting)
    seen = observe_drafting(program_of(Drafter()), setting)
    row = setting.model(())
    assert seen.law == Law(
        {DraftedRows((((row, row), (i, j)),)): row[i] * row[j] for i in range(3) for j in range(3)}
    )
    assert (seen.runs, seen.lane) == (9, "exact")
    assert seen.slack == 0
