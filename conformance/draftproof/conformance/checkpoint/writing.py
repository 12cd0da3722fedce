"""Checkpoint on disk: models and tokenizer for every engine, and their exact rows.

    OUT/target/, OUT/draft/     Hugging Face folders, with safetensors
    OUT/target.gguf, draft.gguf
    OUT/eagle/, OUT/medusa/     of kind heads: draft heads
    OUT/rows.json               the distributions of the models

Transformers runs every model before the folder appears, and must reproduce the written rows.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import numpy

from draftproof.conformance.checkpoint.chain import (
    DENOMINATOR,
    EXCLUDED,
    SPECIAL,
    STEPS,
    Floats,
    InvalidChain,
    MarkovChain,
    chain,
    shift_bound,
)
from draftproof.conformance.checkpoint.gguf import write_gguf
from draftproof.conformance.checkpoint.heads import eagle, medusa, medusa_config
from draftproof.conformance.checkpoint.llama import CONTEXT, Weights, config, weights
from draftproof.conformance.checkpoint.rows import Context, KnownRows, Row, write_rows
from draftproof.conformance.checkpoint.tokens import texts, tokenizer
from draftproof.reference.extras import installation
from draftproof.reference.rational import ONE, Rational

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import LlamaConfig, PreTrainedTokenizerFast

HEADS = "heads"
KINDS = ("memory-1", "memory-2", "memory-3", HEADS)

DTYPES = {"float32": 2.0**-24, "bfloat16": 2.0**-8}
"""The dtypes of checkpoints, and their unit roundoffs."""


class CheckpointUnavailable(RuntimeError):
    """Error of a missing library for checkpoints; the message says how to install it."""


class OccupiedFolder(OSError):
    """Error of a folder for a checkpoint that is not empty."""


class WrongCheckpoint(RuntimeError):
    """Error of rows that transformers does not reproduce: a defect of either program."""


def write_checkpoint(
    folder: Path,
    *,
    kind: str = "memory-1",
    vocabulary: int = 16,
    distance: float = 0.25,
    zeros: int = 2,
    temperature: Rational = ONE,
    dtype: str = "float32",
    seed: int = 0,
    told: Callable[[str], None] = lambda _: None,
) -> KnownRows:
    """Write a checkpoint to a folder that is new or empty, and return its rows.

    The folder appears whole or not at all. `told` is called with each step. Raises
    `InvalidChain`, `CheckpointUnavailable`, `OccupiedFolder`, `WrongCheckpoint` and `OSError`.
    """
    _require_libraries()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OccupiedFolder(f"{str(folder)!r} exists already, and is not an empty folder")
    model = chain(
        memory=_memory(kind),
        vocabulary=vocabulary,
        distance=distance,
        zeros=zeros,
        temperature=temperature,
        seed=seed,
    )
    rows = rows_of(model, kind=kind, dtype=dtype)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        with _quiet():
            _write_all(model, rows, unfinished, told)
        _let_others_read(unfinished)
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return rows


def rows_of(model: MarkovChain, *, kind: str, dtype: str) -> KnownRows:
    """Return the rows of a chain's checkpoint, with their bounds."""
    own = texts(model)
    return KnownRows(
        kind=kind,
        vocabulary=model.vocabulary,
        memory=model.memory,
        temperature=model.temperature,
        texts={word: own[word] for word in model.words},
        target=model.rows(model.target),
        draft=model.rows(model.draft),
        bounds={each: bound(model, each) for each in DTYPES},
        dtype=dtype,
        seed=model.seed,
        special={text: i for i, text in enumerate(SPECIAL)},
    )


def bound(model: MarkovChain, dtype: str) -> float:
    """Return how far the row of a correct engine may be from the chain's, in total variation.

    *Storage.* Logits times the temperature are rounded to the dtype; at temperature 1 they are
    exact. *Arithmetic.* An engine in float32 rounds each of a logit's terms a dozen times: in two
    norms, three projections and the head; softmax adds 16 roundings of a probability. In bfloat16,
    all numbers but the last are powers of two, which no rounding moves; a sum of rounded logits is
    rounded once more. *Rows.* Parts of 1e-12 are less than 1e-11 off.
    """
    kept = [numpy.where(table == EXCLUDED, 0, table) / STEPS for table in model.target]
    scale = float(model.temperature)
    largest = sum(float(abs(table).max()) for table in kept)
    stored = sum(float(abs(_rounded(table * scale, dtype) / scale - table).max()) for table in kept)
    of_sums = DTYPES[dtype] * largest if stored else 0.0
    arithmetic = (12 * (model.memory + 1) * largest + 16) * DTYPES["float32"]
    return shift_bound(stored + of_sums + arithmetic) + len(model.words) / DENOMINATOR


def _rounded(numbers: Floats, dtype: str) -> Floats:
    import torch

    return torch.tensor(numbers).to(getattr(torch, dtype)).double().numpy()


def _memory(kind: str) -> int:
    if kind not in KINDS:
        raise InvalidChain(f"a checkpoint is of kind {', '.join(KINDS)}, got {kind!r}")
    return 1 if kind == HEADS else int(kind.removeprefix("memory-"))


def _require_libraries() -> None:
    for name in ("torch", "transformers", "tokenizers", "safetensors", "gguf"):
        try:
            import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name != name:
                raise
            raise CheckpointUnavailable(
                f"writing a checkpoint needs {name}: {installation('checkpoint')}"
            ) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the progress bars of transformers, whose work takes milliseconds here."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _let_others_read(folder: Path) -> None:
    """Give all files the usual permissions: a server may run as a different user."""
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)


def _write_all(
    model: MarkovChain, rows: KnownRows, folder: Path, told: Callable[[str], None]
) -> None:
    with_heads = rows.kind == HEADS
    own = texts(model)
    words = tokenizer(own, longest=CONTEXT)
    for name, tables in (("target", model.target), ("draft", model.draft)):
        form = config(model, rows.dtype, with_heads=with_heads)
        set_weights = weights(model, tables, with_heads=with_heads)
        _write_model(set_weights, form, words, folder / name, rows.dtype)
        write_gguf(set_weights, form, own, folder / f"{name}.gguf", name=f"draftproof-{name}")
        error = largest_error(folder / name, rows, getattr(rows, name))
        if error > rows.bound:
            raise WrongCheckpoint(
                f"transformers finds a row of {name} that is off by {error:.3g}, where "
                f"{rows.bound:.3g} is allowed"
            )
        told(f"{name}: transformers reproduces the rows to within {error:.1e}")
    if with_heads:
        form = config(model, rows.dtype, with_heads=True).to_dict()
        form |= {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": rows.dtype}
        _write_head(eagle(model), form, folder / "eagle", rows.dtype)
        _write_head(medusa(model), medusa_config(model, rows.dtype), folder / "medusa", rows.dtype)
    write_rows(rows, folder / "rows.json")


def _write_model(
    set_weights: Weights,
    form: LlamaConfig,
    words: PreTrainedTokenizerFast,
    folder: Path,
    dtype: str,
) -> None:
    import torch
    from transformers import GenerationConfig, LlamaForCausalLM

    with torch.device("meta"):
        model = LlamaForCausalLM(form)
    tensors = {name: _tensor(array, dtype) for name, array in set_weights.items()}
    model.load_state_dict(tensors, assign=True)
    # Servers read their defaults here: the rows are those of plain sampling.
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        bos_token_id=form.bos_token_id,
        eos_token_id=form.eos_token_id,
        pad_token_id=form.pad_token_id,
    )
    model.save_pretrained(folder)
    words.save_pretrained(folder)


def _write_head(set_weights: Weights, form: Mapping[str, Any], folder: Path, dtype: str) -> None:
    from safetensors.torch import save_file

    folder.mkdir()
    tensors = {name: _tensor(array, dtype) for name, array in set_weights.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    text = json.dumps(form, indent=2, default=str)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8", newline="\n")


def _tensor(array: Floats, dtype: str) -> Tensor:
    import torch

    return torch.tensor(array).to(getattr(torch, dtype)).contiguous()


def largest_error(
    folder: Path, rows: KnownRows, table: Mapping[Context, Row], *, long: int = 2048
) -> float:
    """Return how far transformers' rows are from a table, in total variation, at any place.

    It reads one text of random words of this length.
    """
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    random = numpy.random.default_rng(rows.seed)
    text = random.choice(rows.words, size=long)
    with torch.inference_mode():
        said = model(torch.from_numpy(text)[None]).logits[0].double()
    said = (said / float(rows.temperature)).softmax(-1).numpy()
    states = [rows.state_of[int(word)] for word in text]
    owed = numpy.zeros_like(said[rows.memory - 1 :])
    places = range(rows.memory, long + 1)
    contexts = [tuple(states[end - rows.memory : end]) for end in places]
    owed[:, list(rows.words)] = [[float(each) for each in table[c]] for c in contexts]
    return float(abs(said[rows.memory - 1 :] - owed).sum(-1).max() / 2)
