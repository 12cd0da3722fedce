"""Measure the tokens per iteration, and per second, of all our verifiers.

    python adapters/benchmarks/decoding.py [--quick] [--out FOLDER]

The benchmark runs no model. Rows follow Zipf's law, permuted anew in every context; the draft's
logits are the target's plus noise of standard deviation sigma. A row is a function of the context,
so paths that share a prefix share its rows, and the emitted tokens determine the next rows.

Tokens per second are those of a model of costs: an iteration is one pass of the target, one of the
draft for each position, and the verification, which is measured on this machine. The passes' costs
are options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import click
import torch
from benchmarks.measuring import (
    Call,
    Spread,
    clock_of,
    document,
    figure,
    in_turn,
    spread,
    told,
    written,
)
from benchmarks.plots import efficiency, speed
from torch import Tensor

from draftproof.adapters.fast import FORMS, TEXTS, FastVerifier
from draftproof.adapters.fast.batch import Batch, Rows, uniforms
from draftproof.adapters.fast.drafting import siblings
from draftproof.adapters.fast.texts import Text

_PRIME = 2**31 - 1
_FACTORS = 1_103_515_245, 1_640_531_527
"""Of a context and of a token, below the prime: what they make stays below 2**63."""


@dataclass(frozen=True)
class Language:
    """A target and a draft, whose rows [N, V] are windows of a few long lines of probabilities.

    A line is a row twice, so each of its V windows is the row with its tokens turned round.
    """

    p: Tensor
    q: Tensor

    def place(self, context: Tensor) -> Tensor:
        """Return which rows follow contexts, of any shape."""
        vocabulary = self.p.shape[1]
        lines = (len(self.p) + vocabulary) // (2 * vocabulary)
        place = context % (lines * vocabulary)
        return place + place // vocabulary * vocabulary


@cache
def language(
    vocabulary: int, sigma: float, *, exponent: float, lines: int, seed: int, device: str = "cpu"
) -> Language:
    """Return a language of some lines; those of one seed differ by their sigma alone."""
    generator = torch.Generator().manual_seed(seed)
    ranks = torch.rand(lines, vocabulary, generator=generator).argsort(1) + 1
    target = ranks.double().log() * -exponent
    noise = torch.randn(lines, vocabulary, generator=generator, dtype=torch.float64)

    def windows(logits: Tensor) -> Tensor:
        rows = logits.softmax(-1).float()
        return torch.cat([rows, rows], 1).flatten().to(device).unfold(0, vocabulary, 1)

    return Language(windows(target), windows(target + sigma * noise))


def after(context: Tensor, token: Tensor) -> Tensor:
    """Return the context that a token makes of another, both of one shape."""
    return (context * _FACTORS[0] + (token + 1) * _FACTORS[1]) % _PRIME


def drafted(
    rows: Language,
    context: Tensor,
    text: Text,
    *,
    drafts: int,
    length: int,
    generator: torch.Generator,
) -> tuple[Batch, Tensor]:
    """Return what a verifier's scheme drafts behind contexts [B], and all contexts [B, K, L+1]."""
    contexts = [context.repeat_interleave(drafts)]
    tokens = []
    for depth in range(length):
        here, width = (context, drafts) if depth == 0 else (contexts[-1], 1)
        marks = uniforms(len(here), width, generator, here.device)
        drawn = siblings(rows.q[rows.place(here)], marks, scheme=text.scheme).flatten()
        tokens.append(drawn)
        contexts.append(after(contexts[-1], drawn))
    shape = len(context), drafts, -1
    along = torch.stack(contexts, 1).view(shape)
    batch = Batch(
        tokens=torch.stack(tokens, 1).view(shape),
        lengths=torch.full_like(context, length),
        q=Rows(rows.q, rows.place(along[..., :-1])),
        p=Rows(rows.p, rows.place(along)),
    )
    return batch, along


def decoded(
    rows: Language,
    text: Text,
    context: Tensor,
    *,
    drafts: int,
    length: int,
    iterations: int,
    generator: torch.Generator,
) -> tuple[Tensor, Batch]:
    """Return the tokens per iteration of requests [B] after several, and what was verified last.

    What a stateful verifier leaves behind is given to it in the next iteration.
    """
    every = torch.arange(len(context), device=context.device)
    emitted, state = torch.zeros_like(context), None
    for _ in range(iterations):
        batch, along = drafted(
            rows, context, text, drafts=drafts, length=length, generator=generator
        )
        batch = replace(batch, state=state)
        result = FastVerifier(text.name).of(batch, _noise(text, batch, generator))
        emitted, state = emitted + result.accepted_length + 1, result.state
        context = after(along[every, result.path, result.accepted_length], result.next_token)
    return emitted / iterations, batch


def verification(text: Text, batch: Batch, form: str, generator: torch.Generator) -> Call:
    """Return the call that verifies a batch, whose rows lie one behind the other."""

    def block(rows: Rows) -> Rows:
        at = torch.arange(rows.at.numel(), device=rows.at.device).view(rows.at.shape)
        return Rows(rows.values[rows.at.flatten()], at)

    batch = replace(batch, p=block(batch.p), q=block(batch.q))
    verifier = FastVerifier(text.name, form=form)
    # Of a new batch each time: memory for its rows is a part of the cost.
    return lambda: verifier.of(replace(batch), _noise(text, batch, generator))


def takes(text: Text, drafts: int) -> bool:
    """Return whether a verifier is measured with K drafts.

    With one draft, those of several are one of those of a single one.
    """
    # Paths part at the root alone, and the scheme of pairs draws no more than two there.
    most = min(text.most_drafts, 2) if text.scheme == "hub" else text.most_drafts
    return drafts == most == 1 or 1 < drafts <= most


def _noise(text: Text, batch: Batch, generator: torch.Generator) -> Tensor:
    width = text.noise(batch.drafts, batch.length)
    return uniforms(len(batch.lengths), width, generator, batch.lengths.device)


@click.command()
@click.option("--quick", is_flag=True, help="Use tiny sizes, to try the script.")
@click.option("--vocabulary", type=click.IntRange(2), default=2048, show_default=True)
@click.option("--timed-vocabulary", type=click.IntRange(2), default=32_000, show_default=True)
@click.option("--requests", type=click.IntRange(2), default=128, show_default=True)
@click.option("--iterations", type=click.IntRange(1), default=6, show_default=True)
@click.option("--drafts", type=click.IntRange(1), multiple=True, default=(1, 2, 4))
@click.option("--length", type=click.IntRange(1), multiple=True, default=(2, 4, 8))
@click.option("--sigma", type=click.FloatRange(0), multiple=True, default=(0, 0.25, 0.5, 1, 1.5, 2))
@click.option(
    "--exponent", type=float, default=1.1, show_default=True, help="Exponent of Zipf's law."
)
@click.option("--lines", type=click.IntRange(1), default=64, show_default=True)
@click.option("--batch", type=click.IntRange(1), default=32, show_default=True, help="Timed batch.")
@click.option("--rounds", type=click.IntRange(2), default=7, show_default=True)
@click.option("--target-pass", type=float, default=0.025, show_default=True, help="Seconds.")
@click.option("--draft-pass", type=float, default=0.0025, show_default=True, help="Seconds.")
@click.option("--verifier", "names", type=click.Choice(list(TEXTS)), multiple=True)
@click.option("--form", type=click.Choice(FORMS), default="torch", help="Form to time.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--threads", type=click.IntRange(1), help="Threads of torch. [default: all cores]")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path(__file__).parent / "results")
def main(*, quick: bool, out: Path, threads: int | None, **options: Any) -> None:
    """Decode without a model, time the verifiers, and write both to the folder."""
    if threads is not None:
        torch.set_num_threads(threads)
    if quick:
        options |= {"vocabulary": 50, "timed_vocabulary": 100, "lines": 2, "drafts": (1, 2)}
        options |= {"length": (2,), "sigma": (0, 1), "batch": 2, "requests": 4}
        options |= {"iterations": 2, "rounds": 3}
    sizes = {name: size for name, size in options.items() if name not in _NO_SIZES}
    found = document("decoding", seed=options["seed"], sizes=sizes)
    found |= {
        "costs": {name: options[name] for name in ("target_pass", "draft_pass")},
        "times": [],
        "rows": [],
        "skipped": [],
    }
    asked = options["names"] or [
        name for name, text in TEXTS.items() if options["form"] in text.forms
    ]
    texts = [TEXTS[name] for name in asked]
    for drafts, length in product(options["drafts"], options["length"]):
        own = [text for text in texts if takes(text, drafts)]
        times = timed(own, drafts, length, options)
        for text in own:
            row = {"name": text.name, "drafts": drafts, "length": length}
            found["times"].append({**row, "seconds": times[text.name]})
            for sigma in options["sigma"]:
                own_row = {**row, "sigma": sigma, **simulated(text, sigma, drafts, length, options)}
                own_row["tokens_per_second"] = figure(
                    options["batch"]
                    * own_row["block_efficiency"]
                    / seconds(times[text.name]["median"], length, found["costs"])
                )
                found["rows"].append(own_row)
                click.echo(told({**own_row, "seconds": times[text.name]}, {}))
    written(found, out)
    (out / "decoding-efficiency.svg").write_text(efficiency(found), encoding="utf-8")
    (out / "decoding-speed.svg").write_text(speed(found), encoding="utf-8")


_NO_SIZES = ("names", "target_pass", "draft_pass", "seed")


def timed(
    texts: Sequence[Text], drafts: int, length: int, options: Mapping[str, Any]
) -> dict[str, Spread]:
    """Return how long one verification of each takes, in its second iteration, in turn."""
    sigma = sorted(options["sigma"])[len(options["sigma"]) // 2]
    own = {**options, "vocabulary": options["timed_vocabulary"], "requests": options["batch"]}
    calls = {}
    for text in texts:
        _, batch, generator = _decoded(text, sigma, drafts, length, {**own, "iterations": 2})
        calls[text.name] = verification(text, batch, options["form"], generator)
    seen = in_turn(calls, rounds=options["rounds"], clock=clock_of(options["device"]))
    return {name: spread(own) for name, own in seen.items()}


def simulated(
    text: Text, sigma: float, drafts: int, length: int, options: Mapping[str, Any]
) -> dict[str, float]:
    """Return the block efficiency of a verifier, and its standard error over requests."""
    each = _decoded(text, sigma, drafts, length, options)[0].double()
    return {
        "block_efficiency": figure(float(each.mean())),
        "standard_error": figure(float(each.std()) / sqrt(len(each))),
    }


def _decoded(
    text: Text, sigma: float, drafts: int, length: int, options: Mapping[str, Any]
) -> tuple[Tensor, Batch, torch.Generator]:
    """Return what `decoded` does of a language and contexts by the options, and the generator."""
    seed, device = options["seed"], options["device"]
    generator = torch.Generator(device).manual_seed(seed)
    rows = language(
        options["vocabulary"],
        sigma,
        exponent=options["exponent"],
        lines=options["lines"],
        seed=seed,
        device=device,
    )
    context = torch.randint(_PRIME, (options["requests"],), generator=generator, device=device)
    sizes = {"drafts": drafts, "length": length, "iterations": options["iterations"]}
    return *decoded(rows, text, context, **sizes, generator=generator), generator


def seconds(verification: float, length: int, costs: Mapping[str, float]) -> float:
    """Return what one iteration takes by the model of costs."""
    return costs["target_pass"] + length * costs["draft_pass"] + verification


if __name__ == "__main__":
    main()
