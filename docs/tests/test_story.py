"""The story of the playground: its mathematics is the reference's, and anybody can read it.

Node computes the laws of the story's own script, as exact fractions. The reference computes those
of a correct verifier, and the exact lane those of the mutants, in float32.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from math import comb
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from building import algorithms, power
from building import playground as building
from building.pages import HOUSE

from draftproof.conformance.cases import Case
from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.museum.mutants import EXHIBITS
from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import Token
from draftproof.conformance.protocol.adapter import DraftRequest, Request, program_of
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, instance_from_json
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import Rational, rational
from draftproof.reference.verifiers import ALGORITHMS, emission_law

STORY: dict[str, Any] = json.loads(building.STORY.read_text(encoding="utf-8"))
BUGS: dict[str, dict[str, Any]] = {bug["id"]: bug for bug in STORY["bugs"]}
INSTANCE = instance_from_json(building.story_instance())
ALIKE = instance_from_json(
    {
        "vocabulary": len(STORY["words"]),
        "length": STORY["length"],
        "target": STORY["target"][""],
        "draft": STORY["draft"][""],
    }
)
TRIES = 60

BACKWARDS = mutant(
    "coin-compared-backwards",
    what="Accepts where the coin is above the ratio.",
    why="what the target wants most is rejected most",
    passed=lambda coins, ratio: coins > ratio,
)
"""The one bug of the story that is not in the museum."""


# --- what Node computes ---------------------------------------------------------------------------

_COMPUTED = """
import { readFileSync } from "node:fs";
const here = process.argv[1];
const tries = Number(process.argv[2]);
const [exact, verification, sampling, link] = await Promise.all(
  ["exact", "verification", "sampling", "link"].map((name) => import(`${here}/${name}.mjs`)),
);
const { lawOf, written } = exact;
const story = JSON.parse(readFileSync(new URL(`${here}/story.json`), "utf8"));
const instance = verification.instanceOf(story);
const small = verification.instanceOf(story.block);
const [V, next] = [story.words.length, exact.numbers(story.seed)];
const told = (law) => Object.fromEntries([...law].map(([key, weight]) => [key, written(weight)]));
const of = (each, verify, own) => lawOf(verification.iteration(each, verify, own));
const right = verification.targetLaw(instance);
const computed = { target: told(right), block: told(of(instance, verification.block)), bugs: {} };
for (const bug of ["", ...story.bugs.map(({ id }) => id)]) {
  const own = verification.stepsOf(bug);
  const emitted = of(instance, verification.token, own);
  const usual = sampling.usuallyEmitted(instance, own);
  computed.bugs[bug] = {
    emitted: told(emitted),
    text: told(verification.textLaw(emitted, instance)),
    distance: written(verification.apart(verification.textLaw(emitted, instance), right)),
    usual: told(usual),
    pooled: sampling.pooled(usual, instance, V).map(written),
  };
}
const tried = (bug) => {
  const usual = sampling.usuallyEmitted(instance, verification.stepsOf(bug));
  const once = () => sampling.usualTry(usual, instance, story.usual, next) <= story.usual.factor;
  return Array.from({ length: tries }, once).filter(Boolean).length;
};
computed.noticed = Object.fromEntries(["", "corrects-from-target"].map((bug) => [bug, tried(bug)]));
computed.small = [verification.token, verification.block].map((verify) =>
  written(verification.expectedAccepted(of(small, verify))),
);
const row = [0.5, 0.375, 0.125, 0];
computed.expected = [1, 10, 1000].map((n) => sampling.expectedDistance(row, n));
const others = [[0.2, 0.2, 0.6], [1, 0, 0]];
computed.shrunk = sampling.shrunk([3, 5, 2], [301, 395, 304], [0.3, 0.4, 0.3], others);
const chance = exact.dice(exact.numbers(1));
computed.sampled = Array(V).fill(0);
for (let i = 0; i < 10000; i++) computed.sampled[chance.draw(instance.target([]))] += 1;
const place = link.placeOf("step=break&bug=accepts-everything", story);
computed.place = [place.step, place.bug, link.fragmentOf(place)];
console.log(JSON.stringify(computed));
"""


@pytest.fixture(scope="module")
def computed() -> Any:
    """The result of the story's script, as JSON."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the story's mathematics is not compared")
    done = subprocess.run(
        [
            node,
            "--input-type=module",
            "--eval",
            _COMPUTED,
            building.STORY.parent.as_uri(),
            str(TRIES),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def outcomes(law: Law[Any]) -> dict[str, str]:
    """A law of emissions as the story writes it."""
    named = law.map(lambda e: f"{','.join(map(str, e.accepted))}|{e.next_token}")
    return {outcome: str(weight) for outcome, weight in named.items()}


def texts(law: Law[Any]) -> dict[str, str]:
    return {",".join(map(str, text)): str(weight) for text, weight in law.items()}


def as_law(weights: dict[str, str]) -> Law[str]:
    return Law({outcome: rational(weight) for outcome, weight in weights.items()})


@pytest.mark.parametrize("algorithm", ["token", "block"])
def test_the_storys_verifiers_have_the_references_law(computed: Any, algorithm: str) -> None:
    law = emission_law(ALGORITHMS[algorithm], INSTANCE)
    found = computed["bugs"][""]["emitted"] if algorithm == "token" else computed["block"]
    assert found == outcomes(law)
    assert len(found) == 14 if algorithm == "token" else len(found) > 10


def test_the_text_of_the_correct_verifier_has_exactly_the_targets_law(computed: Any) -> None:
    target = texts(INSTANCE.target.text(INSTANCE.length + 1))
    assert computed["target"] == target
    assert computed["bugs"][""]["text"] == target
    assert computed["bugs"][""]["distance"] == "0"


def test_the_pictures_example_is_that_of_the_pages(computed: Any) -> None:
    drawn = algorithms.EXAMPLES["token"].instance
    assert instance_from_json({"vocabulary": 2, **STORY["block"]}) == drawn
    assert algorithms.EXAMPLES["block"].instance == drawn
    assert computed["small"] == [
        str(expected_accepted(emission_law(ALGORITHMS[name], drawn))) for name in ("token", "block")
    ]
    assert computed["small"] == ["10/9", "11/9"]


# --- bugs -----------------------------------------------------------------------------------------


def _exhibit(name: str) -> Any:
    return BACKWARDS if name == BACKWARDS.id else EXHIBITS[name]


def observed(name: str, instance: Instance) -> tuple[Law[str], Rational]:
    """The law that the exact lane sees of a bug's mutant, and what rounding explains."""
    seen = observe(program_of(_exhibit(name).make()), Case("story", "", "quick", instance))
    return as_law(outcomes(seen.emitted())), seen.allowed


@pytest.mark.parametrize("name", [name for name in BUGS if name != "declares-the-raw-row"])
def test_a_bug_has_the_law_of_its_mutant(computed: Any, name: str) -> None:
    found = as_law(computed["bugs"][name]["emitted"])
    law, allowed = observed(name, INSTANCE)
    assert 0 < allowed < 1e-4
    assert found.total_variation(law) <= allowed
    assert (
        rational(computed["bugs"][name]["distance"]) > 100 * allowed
        or name == "coins-of-eight-bits"
    )


def test_the_drafters_bug_has_the_law_of_its_mutant(computed: Any) -> None:
    """The mutant drafts at temperature 1/2; a correct verifier believes what it declares."""
    drafter, verifier = _exhibit("declares-the-raw-row").make(), Token()

    def rows(model: Model, contexts: list[list[int]]) -> torch.Tensor:
        return torch.tensor([[float(w) for w in model(tuple(each))] for each in contexts])

    def program() -> tuple[torch.Tensor, ...]:
        drafted = drafter.draft(
            DraftRequest(
                next_probs=lambda contexts: rows(INSTANCE.draft, contexts.tolist()),
                rows=1,
                drafts=1,
                length=INSTANCE.length,
                vocabulary=INSTANCE.vocabulary,
                temperature=0.5,
            )
        )
        path = drafted.draft_tokens[0, 0].tolist()
        along = rows(INSTANCE.target, [path[:size] for size in range(len(path) + 1)])
        asked = Request(drafted.draft_tokens, drafted.draft_probs, along[None, None])
        result = verifier.verify(asked)
        return drafted.draft_tokens[0, 0], result.accepted_length[0], result.next_token[0]

    law = exact_law(program, is_held=False).law.map(
        lambda run: f"{','.join(str(int(t)) for t in run[0][: int(run[1])])}|{int(run[2])}"
    )
    found = as_law(computed["bugs"]["declares-the-raw-row"]["emitted"])
    # Some dozen operations in float32, each off by at most 2^-24 of its result.
    assert found.total_variation(law) <= Rational(1, 2**18)
    assert computed["bugs"]["declares-the-raw-row"]["distance"] == "1/8"


def test_the_text_of_a_bug_is_continued_by_the_target(computed: Any) -> None:
    target = INSTANCE.target.text(INSTANCE.length + 1)
    for name, bug in computed["bugs"].items():
        text = as_law(bug["emitted"]).then(_continued)
        assert bug["text"] == texts(text), name
        assert bug["distance"] == str(text.total_variation(target))
        assert (bug["distance"] == "0") == (name == "")


def _continued(outcome: str) -> Law[tuple[int, ...]]:
    tokens = _tokens(outcome)
    left = INSTANCE.length + 1 - len(tokens)
    return INSTANCE.target.after(tokens).text(left).map(lambda rest: tokens + rest)


def _tokens(outcome: str) -> tuple[int, ...]:
    return tuple(int(token) for token in re.split(r"[,|]", outcome) if token)


def test_bugs_are_named_and_sourced_as_in_the_museum() -> None:
    for name, bug in BUGS.items():
        assert (name in EXHIBITS) == bug.get("museum", True)
        if met := bug.get("met"):
            assert met in EXHIBITS[name].source
        elif name in EXHIBITS:
            assert EXHIBITS[name].source == ("draftproof",)
    assert sum("met" in bug for bug in BUGS.values()) > len(BUGS) / 2


# --- samples --------------------------------------------------------------------------------------


def test_the_usual_test_is_the_one_of_the_explanation(computed: Any) -> None:
    assert tuple(STORY["usual"].values()) == power.ENGINE
    few, many = numpy.array([0.3, 0.5, 0.2]), numpy.array([0.301, 0.395, 0.304])
    target, others = numpy.array([0.3, 0.4, 0.3]), numpy.array([[0.2, 0.2, 0.6], [1, 0, 0]])

    def near(seen: Any) -> float:
        return float(numpy.sqrt(((seen - target) ** 2).sum()))

    def far(seen: Any) -> float:
        return float(numpy.sqrt(((seen - others) ** 2).sum()))

    wanted = near(few) / near(many) / (far(few) / far(many))
    assert computed["shrunk"] == pytest.approx(wanted, rel=1e-12)
    assert wanted == pytest.approx(19.99, abs=0.01)


def test_the_usual_test_sees_what_it_is_said_to_see(computed: Any) -> None:
    row = ALIKE.target(())
    for name, bug in computed["bugs"].items():
        law = (
            emission_law(ALGORITHMS["token"], ALIKE)
            if name in ("", "declares-the-raw-row")
            else None
        )
        if law is not None:
            # The drafter is never run: the test draws its drafts itself.
            assert bug["usual"] == outcomes(law)
            assert bug["pooled"] == [str(power.pooled(law, ALIKE).get(t, 0)) for t in range(4)]
        else:
            seen, allowed = observed(name, ALIKE)
            assert as_law(bug["usual"]).total_variation(seen) <= allowed
        assert sum(rational(weight) for weight in bug["pooled"]) == 1
    blind = {
        name
        for name, bug in computed["bugs"].items()
        if bug["pooled"] == [str(weight) for weight in row]
    }
    assert blind == {
        "",
        "bonus-from-draft",
        "bonus-one-row-early",
        "correction-of-row-zero",
        "declares-the-raw-row",
    }


def test_the_usual_test_fails_as_often_as_that_of_the_explanation(computed: Any) -> None:
    rate = power.caught_by_engine(emission_law(ALGORITHMS["token"], ALIKE), ALIKE)
    assert 0.01 < rate < 0.2
    # Five standard deviations of so many tries.
    slack = 5 * (rate * (1 - rate) / TRIES) ** 0.5
    assert abs(computed["noticed"][""] / TRIES - rate) < slack
    assert computed["noticed"]["corrects-from-target"] == TRIES


def test_the_expected_distance_is_that_of_binomial_counts(computed: Any) -> None:
    def deviation(p: float, n: int) -> float:
        return sum(comb(n, k) * p**k * (1 - p) ** (n - k) * abs(k / n - p) for k in range(n + 1))

    for n, found in zip((1, 10), computed["expected"], strict=False):
        wanted = sum(deviation(p, n) for p in (0.5, 0.375, 0.125, 0)) / 2
        assert found == pytest.approx(wanted, rel=1e-12)
    # Of many samples each deviation is sqrt(2 p (1 - p) / (pi n)).
    many = sum((2 * p * (1 - p) / (numpy.pi * 1000)) ** 0.5 for p in (0.5, 0.375, 0.125)) / 2
    assert computed["expected"][2] == pytest.approx(many, rel=5e-3)


def test_dice_follow_their_weights(computed: Any) -> None:
    drawn = computed["sampled"]
    assert sum(drawn) == 10_000
    assert drawn[3] == 0
    for count, weight in zip(drawn, INSTANCE.target(()), strict=True):
        p = float(weight)
        assert abs(count / 10_000 - p) <= 5 * (p * (1 - p) / 10_000) ** 0.5


def test_a_link_says_where_the_story_is(computed: Any) -> None:
    assert computed["place"] == [
        "break",
        "accepts-everything",
        "step=break&bug=accepts-everything",
    ]


# --- what is loaded -------------------------------------------------------------------------------


def test_the_story_is_one_small_script_that_loads_nothing() -> None:
    script = building.story_script()
    style = (building.STORY.parent / "story.css").read_text(encoding="utf-8")
    assert len(script.encode()) + len(style.encode()) < 60_000
    assert not re.search(r"^(import|export) ", script, re.M)
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|<script", script)


_VARIABLE = re.compile(r"--pg-([\w-]+): (#[0-9a-f]{6});")
PAPER = {"light": "#fdfcfa", "dark": "#141b19"}
CODE = {"light": "#f4f2ec", "dark": "#1c2623"}


def contrast(one: str, other: str) -> float:
    """The contrast of two colours by WCAG 2."""

    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("shade", PAPER)
def test_letters_have_contrast_and_bars_are_seen(shade: str) -> None:
    css = (HOUSE / "docs/playground/playground.css").read_text(encoding="utf-8")
    blocks = re.findall(r"^(?:\[[^{]*)?\.pg \{(.*?)\}", css, re.M | re.S)[:2]
    inks = dict(_VARIABLE.findall(blocks[0 if shade == "light" else 1]))
    for ink in ("p", "q", "wrong", "quiet"):
        assert contrast(inks[ink], PAPER[shade]) >= 4.5, ink
        assert contrast(inks[ink], CODE[shade]) >= 4.5, ink
    assert contrast(inks["q-bar"], PAPER[shade]) >= 3


# --- in a browser, opened as a file ---------------------------------------------------------------

_PAGE = """<!doctype html>
<meta charset=utf-8>
<meta name=viewport content="width=device-width">
<link rel=stylesheet href=house.css>
<body data-md-color-scheme={scheme} style="margin: 0">
<main class=md-typeset>{parts}</main>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page and what the story needs, without a server and without Python."""
    site = tmp_path_factory.mktemp("site")
    into = site / "playground"
    into.mkdir()
    for name in ("playground.css", "story/story.css"):
        shutil.copyfile(HOUSE / "docs/playground" / name, into / Path(name).name)
    shutil.copyfile(HOUSE / "docs/theme/assets/house.css", into / "house.css")
    (into / "story.js").write_text(building.story_script(), encoding="utf-8")
    text = (HOUSE / "docs/pages/playground/index.md").read_text(encoding="utf-8")
    story, widget = re.findall(r'^<div class="pg">.*?^</div>$(?=\n\n)', text, re.M | re.S)
    # Browsers load no modules for a file, and say so.
    parts = (
        story
        + "<h2 id=now-exactly>Now exactly</h2>"
        + re.sub(r"<script type.*?</script>", "", widget)
    )
    for name, scheme in (("light", "default"), ("dark", "slate")):
        page = _PAGE.format(scheme=scheme, parts=parts)
        (into / f"{name}.html").write_text(page, encoding="utf-8")
    for place, picture in algorithms.files().items():
        if place.startswith(("explanation/algorithms/token-", "explanation/algorithms/block-")):
            (site / place).parent.mkdir(parents=True, exist_ok=True)
            (site / place).write_bytes(picture)
    return into


Opening = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, folder: Path) -> Iterator[Opening]:
    """Open the page at a fragment; it must have been quiet when it is closed."""
    contexts, heard = [], []

    def open_at(fragment: str, *, scheme: str = "light", width: int = 1280, **how: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **how)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: heard.append(said.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.goto(f"{(folder / f'{scheme}.html').as_uri()}#{fragment}")
        page.locator(".st-stage h2").wait_for()
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert heard == []


PLACES = [
    "step=models",
    "step=models&after=down",
    *(f"step=coin&seed=11&at={at}" for at in range(7)),
    "step=coin&seed=13&at=6",
    "step=runs&n=50",
    *(f"step=break&bug={name}" for name in ("", *BUGS)),
    "step=block",
]


def _go(page: Any, place: str) -> None:
    page.evaluate(
        """place => new Promise((go) => {
            window.addEventListener("hashchange", () => go(), { once: true });
            location.hash = place;
        })""",
        place,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_step_fits_a_phone_and_its_figures_have_names(opened: Opening, scheme: str) -> None:
    page = opened("", scheme=scheme, width=390)
    for place in PLACES:
        _go(page, place)
        step = place.removeprefix("step=").split("&")[0]
        page.locator(f'.st-stage[data-step="{step}"]').wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, place
        figures = page.locator(".st-stage [role=img]")
        labels = figures.evaluate_all("all => all.map((each) => each.getAttribute('aria-label'))")
        assert all(len(label) > 30 for label in labels), place
        assert len(labels) + page.locator(".st-plan img").count() > 0, place
        assert page.locator(".st .pg-error").first.inner_text() == ""
    page.wait_for_function("[...document.images].every((each) => each.naturalWidth > 0)")


def test_the_story_is_worked_by_the_keyboard_alone(opened: Opening) -> None:
    page = opened("step=coin&seed=11")
    page.locator("#st-next").focus()
    said = [page.locator(".st-told").inner_text()]
    while page.locator("#st-next").inner_text() != "Another run":
        page.keyboard.press("Enter")
        said.append(page.locator(".st-told").inner_text())
        assert page.evaluate("document.activeElement.id") == "st-next"
    assert said == [
        "After “The dog” the draft draws “sat”, by its own probabilities.",
        "After “The dog sat” the draft draws “and”, by its own probabilities.",
        "Should “sat” be kept? The target gives it p = 3/8, the draft q = 5/8: p/q = 3/5. "
        "It is kept with probability 3/5.",
        "The coin shows 0.608, which is not below 3/5: “sat” is rejected, and what was drafted "
        "behind it goes with it.",
        "What does the target want more often than the draft gives it? The residual max(p − q, 0), "
        "word by word. Drawing from p itself would give the shared part twice.",
        "The residual sums to 3/8. Divided by that, it is a distribution.",
        "The correction is drawn from it: “ran”. One pass of the target has written 1 word: “The "
        "dog ran”.",
    ]
    assert page.evaluate("location.hash") == "#step=coin&seed=11&at=6"
    assert page.locator(".st-live").inner_text() == said[-1]
    page.locator("#st-step-break").focus()
    page.keyboard.press("Enter")
    page.locator("#st-bug-none").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("location.hash") == "#step=break&bug=bonus-from-draft"
    assert page.evaluate("document.activeElement.id") == "st-bug-bonus-from-draft"
    page.locator(".st-turn a").first.focus()
    page.keyboard.press("Enter")
    heading = "document.activeElement.textContent === 'A thousand runs meet the target'"
    page.wait_for_function(heading)


def test_a_bug_turns_bars_red_and_the_usual_test_says_what_it_sees(opened: Opening) -> None:
    page = opened("step=break")
    assert page.locator(".st-row-wrong").count() == 0
    assert page.locator(".st-exact .st-says").inner_text() == "lossless"
    page.locator("#st-bug-bonus-from-draft").click()
    assert page.locator(".st-found > .st-charts .st-row-wrong").count() == 4
    assert "153/512 = 0.2988" in page.locator(".st-exact").inner_text()
    usual = page.locator('.st-usual[data-tries="20"]')
    usual.wait_for(timeout=60_000)
    assert usual.locator(".st-says").inner_text() == "“fine”"
    assert "more samples would not help" in usual.inner_text()
    assert "10 iterations, then 100,000" in usual.inner_text()
    page.locator("#st-bug-corrects-from-target").click()
    usual.wait_for(timeout=60_000)
    assert usual.locator(".st-says").inner_text() == "notices"
    assert "It failed in 20 of 20 tries" in usual.inner_text()
    assert "What it counts is off by 9/64 = 0.1406" in usual.inner_text()


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_runs_are_counted_and_compared_with_chance(opened: Opening, motion: str) -> None:
    page = opened("step=runs", reduced_motion=motion)
    page.locator("#st-more-100").click()
    page.locator(".st-told", has_text="100 runs.").wait_for(timeout=60_000)
    rows = page.locator(".st-table tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == ["Word 1", "Word 2", "Word 3", "Whole text"]
    now, expected = (float(cell) for cell in rows[0].split("\t")[1:])
    assert 0 <= now < 5 * expected
    assert expected == pytest.approx(0.0523, abs=5e-3)
    moves = page.locator(".st-part").first.evaluate("e => getComputedStyle(e).transitionDuration")
    assert moves == "0s"
    _go(page, "step=models")
    moves = page.locator(".st-part").first.evaluate("e => getComputedStyle(e).transitionDuration")
    assert moves == ("0s" if motion == "reduce" else "0.35s")


@pytest.mark.parametrize(
    ("fragment", "message"),
    [
        ("step=nowhere", "“step” must be one of models, coin, runs, break, block; it is “nowhere”"),
        ("step=coin&seed=x", "“seed” must be a whole number up to 999999999; it is “x”"),
        ("step=runs&n=20000", "“n” must be a whole number up to 10000; it is “20000”"),
        ("step=break&bug=none", "“bug” must be one of bonus-from-draft, "),
    ],
)
def test_a_malformed_link_says_what_is_wrong(opened: Opening, fragment: str, message: str) -> None:
    page = opened(fragment)
    assert message in page.locator(".st .pg-error").inner_text()
    assert page.locator(".st-stage").get_attribute("data-step") == "models"


def test_opened_as_a_file_it_says_what_needs_a_server(opened: Opening) -> None:
    page = opened("")
    notice = page.locator('[data-part="as-file"]')
    assert notice.is_visible()
    assert "python -m http.server" in notice.inner_text()
