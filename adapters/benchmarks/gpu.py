"""The fast verifiers of one path on a GPU: how much of its bandwidth they use.

    python adapters/benchmarks/gpu.py [--quick] [--out FOLDER]

A verifier must read its input once. So what counts is the bytes of the logits over the time, as a
fraction of the bandwidth that a large copy has. Beside our forms stand block verification written
the obvious way, and the verifiers of engines that are installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import click
import torch
from benchmarks.calls import as_logits
from benchmarks.engines import ENGINES, of_one_path
from benchmarks.inputs import Size, request
from benchmarks.measuring import (
    Call,
    Clock,
    clock_of,
    document,
    figure,
    in_turn,
    ratio,
    spread,
    told,
    written,
)
from benchmarks.peers import at_once
from benchmarks.plots import bandwidth

from draftproof.adapters.fast import FORMS
from draftproof.adapters.fast.engine import verify
from draftproof.conformance.protocol.adapter import Request

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

OURS = tuple(f"{form} {name}" for form, name in product(FORMS, ("token", "block")))

_COPIED = 2**30
"""Bytes: enough that a copy's start does not count."""

_QUICK = 2**20

_SHORTEST = 0.005
"""Seconds, as in `in_turn`: events are finer than a clock on the wall."""


@click.command()
@click.option("--quick", is_flag=True, help="Tiny sizes: whether it works, not how fast.")
@click.option("--requests", type=click.IntRange(1), multiple=True, default=(1, 16, 64, 256))
@click.option("--length", type=click.IntRange(1), multiple=True, default=(3, 5, 8))
@click.option(
    "--vocabulary", type=click.IntRange(2), multiple=True, default=(32_000, 128_256, 151_936)
)
@click.option("--dtype", type=click.Choice(list(DTYPES)), multiple=True, default=tuple(DTYPES))
@click.option("--rounds", type=click.IntRange(2), default=9, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--device", default="cuda", show_default=True, help="cpu with TRITON_INTERPRET=1.")
@click.option("--out", type=click.Path(path_type=Path), default=Path(__file__).parent / "results")
def main(*, quick: bool, seed: int, device: str, out: Path, **sizes: Any) -> None:
    """Measure how much of a GPU's bandwidth verification uses, and write it to the folder."""
    if device != "cpu" and not torch.cuda.is_available():
        click.echo("torch sees no GPU here: nothing is measured, nothing is written")
        return
    if quick:
        sizes |= {"requests": (2,), "length": (2,), "vocabulary": (100,), "rounds": 3}
    clock = clock_of(device)
    found = document("gpu", seed=seed, sizes=sizes)
    copied = copy_bandwidth(_QUICK if quick else _COPIED, device, clock, sizes["rounds"])
    found |= {"device": _device(device, copied), "rows": [], "skipped": []}
    click.echo(f"{found['device']['name']}: {copied / 1e9:.1f} GB/s copied")
    torch.manual_seed(seed)
    every = (sizes[name] for name in ("dtype", "requests", "length", "vocabulary"))
    for dtype, *each in product(*every):
        given = request(Size(*each), seed=seed, logits=True, device=device, dtype=DTYPES[dtype])
        for row in times(given, Size(*each), found, rounds=sizes["rounds"], clock=clock):
            found["rows"].append(row)
            click.echo(told(row, {}))
    for skipped in found["skipped"]:
        click.echo(f"not measured: {skipped['what']}: {skipped['reason']}")
    written(found, out)
    (out / "gpu.svg").write_text(bandwidth(found), encoding="utf-8")


def copy_bandwidth(count: int, device: str, clock: Clock, rounds: int) -> float:
    """Return the bytes per second, read and written, of a copy of so many bytes."""
    source = torch.empty(count, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    seen = in_turn({"copy": partial(target.copy_, source)}, rounds=rounds, clock=clock)
    return 2 * count / median(seen["copy"])


def times(
    given: Request, size: Size, found: Mapping[str, Any], *, rounds: int, clock: Clock
) -> Iterator[dict[str, Any]]:
    """Yield what every call of a size took, each as a row of the document."""
    tokens, q, p = of_one_path(given)
    calls: dict[str, Call] = {name: ours(name, given) for name in OURS}
    calls["batched"] = partial(at_once, tokens, q, p, logits=True)
    calls |= theirs(given, ENGINES, found["skipped"])
    seen = in_turn(calls, rounds=rounds, clock=clock, shortest=_SHORTEST)
    for name, own in seen.items():
        form = name.partition(" ")[0]
        rates = [size.numbers * q.itemsize / seconds for seconds in own]
        yield {
            "size": asdict(size),
            "dtype": str(q.dtype).removeprefix("torch."),
            "name": name,
            "seconds": spread(own),
            "fraction": spread([rate / found["device"]["bandwidth"] for rate in rates]),
            "to_token": ratio(own, seen[f"{form} token"]) if form in FORMS else None,
        }


def ours(name: str, request: Request) -> Call:
    """Return the call of a form of ours on the logits of a request, as an engine has them."""
    form, _, text = name.partition(" ")
    return partial(verify, text, form=form, **as_logits(request))


def theirs(
    request: Request,
    engines: Mapping[str, Callable[[Request], Call]],
    skipped: list[dict[str, str]],
) -> dict[str, Call]:
    """Return the calls of the engines that work here, and note once why the others do not."""
    calls = {}
    for name, engine in engines.items():
        try:
            call = engine(request)
            call()
        # Whatever breaks in a program that is not ours is the reason why it is not measured.
        except Exception as error:
            reason = {"what": name, "reason": f"{type(error).__name__}: {error}"}
            if reason not in skipped:
                skipped.append(reason)
        else:
            calls[name] = call
    return calls


def _device(device: str, copied: float) -> dict[str, Any]:
    from draftproof.adapters.fast.kernels import IS_INTERPRETED

    name = "cpu" if device == "cpu" else torch.cuda.get_device_name(device)
    return {"name": name, "bandwidth": figure(copied), "interpreted": IS_INTERPRETED}


if __name__ == "__main__":
    main()
