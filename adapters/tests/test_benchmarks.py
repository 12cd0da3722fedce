"""The benchmarks: that they time what they say, and decode as the exact reference does."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from math import sqrt
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from benchmarks import cpu, decoding
from benchmarks.calls import OURS, WAYS, ours, theirs
from benchmarks.inputs import Size, request
from benchmarks.measuring import document, in_turn, ratio, spread, written
from benchmarks.memory import Unmeasured, measured
from benchmarks.peers import at_once, one_by_one
from click.testing import CliRunner

from draftproof.adapters.fast import TEXTS
from draftproof.adapters.fast.batch import uniforms
from draftproof.adapters.fast.drafting import siblings
from draftproof.adapters.fast.engine import Verified
from draftproof.adapters.fast.texts import Text
from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.protocol.adapter import Result
from draftproof.reference.model import Instance, Model
from draftproof.reference.model import Path as Context
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import ALGORITHMS, emission_law
from draftproof.spec import MalformedDocument, validate

BENCHMARKS = Path(cpu.__file__).parent
SMALL = Size(2, 2, 3)


# --- measuring ---------------------------------------------------------------------------


def test_a_spread_is_a_median_between_quartiles() -> None:
    assert spread([5, 1, 3, 2, 4]) == {"low": 2, "median": 3, "high": 4}
    assert spread([7]) == dict.fromkeys(("low", "median", "high"), 7)


def test_a_ratio_is_that_of_neighbours() -> None:
    # The machine becomes ten times as slow: each call is twice as slow as its neighbour all along.
    assert ratio([2, 20, 200], [1, 10, 100]) == dict.fromkeys(("low", "median", "high"), 2)


def test_calls_take_turns_and_short_ones_are_repeated() -> None:
    made: list[tuple[str, int]] = []
    costs = {"long": 1.0, "short": 0.25}
    calls = {name: partial(str, name) for name in costs}

    def clock(call: Callable[[], object], repeats: int) -> float:
        made.append((str(call()), repeats))
        return costs[str(call())]

    seen = in_turn(calls, rounds=2, clock=clock, shortest=0.5)
    assert made == [
        ("long", 1), ("short", 1),
        ("long", 1), ("short", 2),
        ("long", 1), ("short", 2),
    ]  # fmt: skip
    assert seen == {"long": [1, 1], "short": [0.25, 0.25]}


def test_a_document_that_breaks_its_schema_is_not_written(tmp_path: Path) -> None:
    whole = {**document("cpu", seed=0, sizes={"length": (4, 8)}), "rows": [{}], "skipped": []}
    with pytest.raises(MalformedDocument, match="benchmark: "):
        written(whole, tmp_path / "results")
    assert not (tmp_path / "results").exists()


# --- the others --------------------------------------------------------------------------


def law(call: Callable[[], Any]) -> Any:
    return exact_law(lambda: emitted(call())).law


def emitted(result: Any) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(result, Result):
        return result.accepted_length, result.next_token
    if isinstance(result, Verified):
        return result.accepted, result.token_ids.gather(1, result.accepted[:, None])[:, 0]
    return result  # type: ignore[no-any-return]  # what a peer returns is that already


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("peer", [at_once, one_by_one])
def test_the_obvious_ways_have_the_law_of_ours(peer: Any, logits: bool) -> None:
    given = request(Size(1, 2, 3), seed=3, logits=logits)
    tokens, q, p = (
        each[:, 0] for each in (given.draft_tokens, given.draft_probs, given.target_probs)
    )
    own = law(ours("block", "logits" if logits else "checked", given))
    # 2**-24 times the roundings of three tokens at three positions, and of a softmax: some 40.
    assert law(lambda: peer(tokens, q, p, logits=logits)).total_variation(own) < rational(
        "1/100000"
    )
    # One that measures the draft by the target is told from it.
    swapped = partial(peer, tokens, p[:, :-1], torch.cat([q, p[:, -1:]], 1), logits=logits)
    assert law(swapped).total_variation(own) > rational("1/100")


@pytest.mark.parametrize("way", WAYS)
def test_every_call_is_one_of_the_same_input(way: str) -> None:
    given = request(SMALL, seed=0, logits=WAYS[way])
    for name in OURS:
        result = ours(name, way, given)()
        accepted, _ = emitted(result)
        assert accepted.shape == (2,)
    for call in theirs(given, logits=WAYS[way]).values():
        assert len(call()) == 2  # type: ignore[arg-type]  # two requests, or two columns of them


def test_inputs_are_drafts_of_their_rows() -> None:
    size = Size(4000, 1, 4)
    given = request(size, seed=0)
    for rows in (given.draft_probs, given.target_probs):
        assert torch.allclose(rows.sum(-1), torch.ones(()))
    drawn = given.draft_tokens[:, 0, 0]
    expected = given.draft_probs[:, 0, 0].double()
    counted = torch.nn.functional.one_hot(drawn, 4).double()
    error = (expected * (1 - expected)).sum(0).sqrt()
    assert ((counted - expected).sum(0).abs() < 5 * error).all()


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_the_obvious_way_needs_the_memory_that_it_names() -> None:
    size = Size(8, 4, 32_000)
    # Inputs of 9 rows: an owed row at each of 5 positions, and what leads to it, beside them.
    token, batched = (measured("unchecked", name, size, seed=0) for name in ("token", "batched"))
    assert 1 < token < 2 < batched


def test_memory_that_cannot_be_measured_says_why() -> None:
    with pytest.raises(Unmeasured, match="KeyError: 'sideways'"):
        measured("sideways", "token", SMALL, seed=0)


# --- decoding ----------------------------------------------------------------------------


def rows(vocabulary: int, sigma: float) -> decoding.Language:
    return decoding.language(vocabulary, sigma, exponent=1.1, lines=4, seed=5)


def everything() -> Iterator[tuple[Text, int]]:
    """Yield every verifier that is there, with a number of drafts that it takes."""
    for text, drafts in product(TEXTS.values(), (1, 2)):
        if decoding.takes(text, drafts):
            yield text, drafts


EVERYTHING = list(everything())


def decoded(text: Text, drafts: int, language: decoding.Language, **options: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    options = {"context": torch.arange(400), "length": 2, "iterations": 3, **options}
    each, _ = decoding.decoded(
        language, text, options.pop("context"), drafts=drafts, generator=generator, **options
    )
    return each.double()


def mean(each: torch.Tensor) -> tuple[float, float]:
    """Return a mean and its standard error."""
    return float(each.mean()), float(each.std()) / sqrt(len(each))


def test_a_row_is_zipf_s_law_dealt_anew_in_every_context() -> None:
    language = rows(50, 0.5)
    context = torch.arange(500)
    p, q = language.p[language.place(context)], language.q[language.place(context)]
    law = torch.arange(1, 51).double() ** -1.1
    assert torch.allclose(p.sort(descending=True).values, (law / law.sum()).float().expand(500, 50))
    # Four lines of fifty windows each, and every one of them is a row of its own.
    assert _distinct(p) == _distinct(q) == 200
    assert torch.allclose(q.sum(-1), torch.ones(()))
    assert torch.equal(rows(50, 0).p, rows(50, 0).q)
    assert torch.equal(rows(50, 0).p, language.p)


def _distinct(values: torch.Tensor) -> int:
    return len(set(map(tuple, values.tolist())))


def test_paths_that_share_a_prefix_share_their_rows_and_no_others() -> None:
    generator = torch.Generator().manual_seed(0)
    context, text = torch.arange(300), TEXTS["recursive_rejection"]
    batch, along = decoding.drafted(
        rows(50, 1), context, text, drafts=2, length=2, generator=generator
    )
    is_shared = batch.tokens[:, 0, 0] == batch.tokens[:, 1, 0]
    assert 0 < is_shared.sum() < 300
    assert torch.equal(along[:, 0, 1] == along[:, 1, 1], is_shared)
    assert torch.equal(batch.p.at[:, :, :-1], batch.q.at)
    assert torch.equal(along[:, :, 0], context[:, None].expand(-1, 2))


@pytest.mark.parametrize(("text", "drafts"), EVERYTHING, ids=lambda v: getattr(v, "name", str(v)))
def test_a_draft_that_is_the_target_is_accepted(text: Text, drafts: int) -> None:
    each = decoded(text, drafts, rows(50, 0))
    if text.name == "multipath_block":
        # It follows the highest-ranked of two paths even where no path is better than another.
        assert mean(each)[0] < 3
    else:
        assert torch.equal(each, torch.full_like(each, 3))


def test_block_keeps_no_less_than_token() -> None:
    language = rows(50, 1)
    (block, own), (token, other) = (
        mean(decoded(TEXTS[name], 1, language, length=4)) for name in ("block", "token")
    )
    assert block > token - 4 * sqrt(own**2 + other**2)


def instance(language: decoding.Language, context: int, text: Text, drafts: int) -> Instance:
    """Return the exact instance of the rows behind one context, two tokens drafted."""
    vocabulary = language.p.shape[1]
    contexts: list[Context] = [()]
    for path in contexts:
        if len(path) < 2:
            contexts.extend((*path, token) for token in range(vocabulary))

    def row(values: torch.Tensor, path: Context) -> tuple[Any, ...]:
        here = torch.tensor([context])
        for token in path:
            here = decoding.after(here, torch.tensor([token]))
        weights = [Fraction(value) for value in values[language.place(here)[0]].tolist()]
        return tuple(rational(weight / sum(weights)) for weight in weights)

    target, draft = (
        Model(name, vocabulary, {path: row(values, path) for path in contexts})
        for name, values in (("target", language.p), ("draft", language.q))
    )
    return Instance(target, draft, length=2, drafts=drafts, scheme=text.scheme)


@pytest.mark.parametrize(("text", "drafts"), EVERYTHING, ids=lambda v: getattr(v, "name", str(v)))
def test_the_tokens_per_iteration_are_those_of_the_exact_reference(
    text: Text, drafts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    language, context = rows(3, 1), 7
    exact = emission_law(ALGORITHMS[text.algorithm], instance(language, context, text, drafts))
    expected = float(expected_accepted(exact)) + 1
    seen = partial(
        decoded, text, drafts, language, context=torch.full((4000,), context), iterations=1
    )
    found, error = mean(seen())
    assert abs(found - expected) < 5 * error

    # With coins that are half as large, more is accepted, and that is seen.
    def of_small_coins(*args: Any) -> torch.Tensor:
        return uniforms(*args) / 2

    monkeypatch.setattr(decoding, "uniforms", of_small_coins)
    monkeypatch.setattr(decoding, "siblings", _drawn_fairly)
    found, error = mean(seen())
    assert abs(found - expected) > 5 * error


def _drawn_fairly(rows: torch.Tensor, marks: torch.Tensor, **options: Any) -> torch.Tensor:
    return siblings(rows, 2 * marks, **options)


# --- what is run -------------------------------------------------------------------------


def parsed(file: Path) -> ElementTree.Element:
    return ElementTree.parse(file).getroot()


def test_the_benchmark_of_a_cpu_writes_what_its_schema_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each is a process that imports torch; one is measured above.
    monkeypatch.setattr(cpu, "measured", lambda *_, **__: 1.5)
    done = CliRunner().invoke(cpu.main, ["--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "cpu.json").read_text())
    validate(found, "benchmark")
    assert found["machine"]["torch"] == torch.__version__
    seen = [(row["way"], row["name"], row["peak"]) for row in found["rows"]]
    assert seen == [
        *product(("unchecked", "checked"), OURS, (1.5,)),
        ("unchecked", "batched", 1.5),
        ("unchecked", "listing", None),
        *product(("logits",), (*OURS, "batched"), (1.5,)),
        *product(("logits",), ("listing", "transformers"), (None,)),
    ]
    for row in found["rows"]:
        if row["name"] == "token":
            assert row["to_token"] == {"low": 1, "median": 1, "high": 1}
        if row["name"] in OURS:
            others = {"batched", "listing"} | (
                {"transformers"} if row["way"] == "logits" else set()
            )
            assert row["to_others"].keys() == others
    assert "(aim 1.15)" in done.output
    for name in ("cpu-times", "cpu-memory"):
        assert parsed(tmp_path / f"{name}.svg").get("role") == "img"


def test_the_benchmark_of_decoding_writes_what_its_schema_says(tmp_path: Path) -> None:
    names = ("block", "spechub", "greedy_block")
    chosen = [argument for name in names for argument in ("--verifier", name)]
    done = CliRunner().invoke(decoding.main, ["--quick", *chosen, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "decoding.json").read_text())
    validate(found, "benchmark")
    assert [(row["name"], row["drafts"], row["sigma"]) for row in found["rows"]] == [
        *product(("block", "greedy_block"), (1,), (0, 1)),
        *product(("spechub",), (2,), (0, 1)),
    ]
    (block, *_), (time, *_) = found["rows"], found["times"]
    assert (block["block_efficiency"], block["standard_error"]) == (3, 0)
    # Two requests in a pass of the target, two of the draft, and what was measured.
    seconds = 0.025 + 2 * 0.0025 + time["seconds"]["median"]
    assert block["tokens_per_second"] == pytest.approx(2 * 3 / seconds, rel=1e-4)
    for name in ("decoding-efficiency", "decoding-speed"):
        words = [text.text for text in parsed(tmp_path / f"{name}.svg").iter() if text.text]
        assert {"block", "spechub", "greedy block"} <= set(words)


def test_the_names_of_lines_that_end_together_are_apart(tmp_path: Path) -> None:
    from benchmarks.plots import efficiency

    names = [text.name for text in TEXTS.values() if text.most_drafts > 1]
    drawn = efficiency(
        {
            "rows": [
                {
                    "name": name,
                    "drafts": 2,
                    "length": 8,
                    "sigma": sigma,
                    "block_efficiency": 2,
                    "standard_error": 0.1,
                }
                for name, sigma in product(names, (0, 1))
            ]
        }
    )
    words = {name.replace("_without_", ", without_").replace("_", " ") for name in names}
    heights = [
        float(re.search(r"[\d.]+\)?$", place)[0].rstrip(")"))  # type: ignore[index]
        for each in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")
        if each.text in words and (place := each.get("y") or each.get("transform"))
    ]
    assert len(heights) == len(names)
    ordered = sorted(heights)
    assert min(b - a for a, b in pairwise(ordered)) > 11
