from __future__ import annotations

from pathlib import Path

import numpy
import pytest

pytest.importorskip("transformers")
pytest.importorskip("gguf")

import torch
from safetensors.torch import load_file

from draftproof.conformance.checkpoint.chain import STEPS, InvalidChain, chain
from draftproof.conformance.checkpoint.heads import MEDUSA
from draftproof.conformance.checkpoint.rows import read_rows
from draftproof.conformance.checkpoint.tokens import texts, tokenizer
from draftproof.conformance.checkpoint.writing import (
    OccupiedFolder,
    WrongCheckpoint,
    largest_error,
    write_checkpoint,
)
from draftproof.reference.rational import rational


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["memory-1", "memory-2", "memory-3", "heads"])
def test_transformers_says_the_rows_at_every_place(tmp_path: Path, kind: str, dtype: str) -> None:
    rows = write_checkpoint(tmp_path / "out", kind=kind, dtype=dtype)
    assert read_rows(tmp_path / "out/rows.json") == rows
    for name in ("target", "draft"):
        error = largest_error(tmp_path / "out" / name, rows, getattr(rows, name))
        assert error <= rows.bound < 2e-5


def test_a_temperature_and_a_large_vocabulary_keep_the_rows(tmp_path: Path) -> None:
    rows = write_checkpoint(
        tmp_path / "out", kind="memory-2", vocabulary=4000, temperature=rational("7/10")
    )
    assert largest_error(tmp_path / "out/target", rows, rows.target) <= rows.bound < 2e-5
    assert rows.words[-1] == 3999


def test_a_shifted_key_is_seen_where_the_memory_is_2(tmp_path: Path) -> None:
    """A wrong position moves the rows: the check before a checkpoint is handed over sees it."""
    rows = write_checkpoint(tmp_path / "out", kind="memory-2")
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out/target")
    text = torch.tensor([[*rows.words] * 8])
    places = torch.arange(text.shape[1])[None]
    right = model(text, position_ids=places).logits
    places[0, 20:] += 1
    wrong = model(text, position_ids=places).logits
    apart = (right.softmax(-1) - wrong.softmax(-1)).abs().sum(-1)[0] / 2
    assert apart[:20].max() < 1e-6
    assert apart[20] > 0.01
    assert apart[21:].max() < 1e-6


def test_gguf_files_hold_the_same_model(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    rows = write_checkpoint(tmp_path / "out", kind="memory-2")
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "out", gguf_file="target.gguf")
    own = AutoModelForCausalLM.from_pretrained(tmp_path / "out/target")
    text = torch.tensor([[*rows.words] * 5])
    assert torch.allclose(own(text).logits, read(text).logits, atol=1e-5)


def test_the_draft_head_says_the_rows_of_the_draft(tmp_path: Path) -> None:
    rows = write_checkpoint(tmp_path / "out", kind="heads")
    head = load_file(tmp_path / "out/eagle/model.safetensors")
    target = load_file(tmp_path / "out/target/model.safetensors")
    embedded = target["model.embed_tokens.weight"][list(rows.words)]
    # Its one layer writes zeros, so its output is that of fc.
    assert not head["layers.0.self_attn.o_proj.weight"].any()
    assert not head["layers.0.mlp.down_proj.weight"].any()
    hidden = torch.cat([embedded, torch.randn_like(embedded)], 1) @ head["fc.weight"].T
    said = (hidden @ target["lm_head.weight"].T).double().softmax(-1)[:, list(rows.words)]
    owed = torch.tensor([[float(p) for p in rows.draft[(s,)]] for s in rows.state_of.values()])
    assert (said - owed).abs().sum(1).max() / 2 <= rows.bound


def test_medusa_heads_say_what_follows_the_next_token(tmp_path: Path) -> None:
    rows = write_checkpoint(tmp_path / "out", kind="heads")
    heads = load_file(tmp_path / "out/medusa/model.safetensors")
    target = load_file(tmp_path / "out/target/model.safetensors")
    # The last norm leaves ones where the embedding is not zero.
    hidden = (target["model.embed_tokens.weight"][list(rows.words)] > 0).float()
    states = rows.state_of.values()
    own = torch.tensor([[float(p) for p in rows.target[(s,)]] for s in states]).double()
    draft = torch.tensor([[float(p) for p in rows.draft[(s,)]] for s in states]).double()
    for place in range(MEDUSA):
        own = own @ draft
        block = heads[f"blocks.{place}.layers.0.weight"]
        kept = hidden + torch.nn.functional.silu(hidden @ block.T)
        said = (kept @ heads[f"lm_heads.{place}.weight"].T).double().softmax(-1)
        assert (said[:, list(rows.words)] - own).abs().sum(1).max() / 2 < 1e-6


def test_text_and_ids_say_the_same() -> None:
    model = chain(vocabulary=3000)
    own = texts(model)
    words = tokenizer(own, longest=100)
    assert len({*own}) == 3000
    random = numpy.random.default_rng(0)
    ids = [int(each) for each in random.integers(3, 3000, size=500)]
    text = "".join(own[each] for each in ids)
    assert words(text, add_special_tokens=False)["input_ids"] == ids
    assert words(text)["input_ids"] == ids
    assert words.decode(ids) == text
    assert words.apply_chat_template([{"role": "user", "content": "abc"}], tokenize=False) == "abc"
    assert own[model.words[0]] == "a"


def test_logits_of_a_target_are_the_tables(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "out")
    model = chain()
    head = load_file(tmp_path / "out/target/model.safetensors")["lm_head.weight"]
    assert (
        head[list(model.words), : model.states] == torch.tensor(model.target[0].T / STEPS)
    ).all()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OccupiedFolder, match="exists already, and is not an empty folder"):
        write_checkpoint(tmp_path)
    assert (tmp_path / "file").read_text() == "mine"


def test_nothing_is_left_of_a_checkpoint_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from draftproof.conformance.checkpoint import writing

    monkeypatch.setattr(writing, "largest_error", lambda *_: 0.5)
    with pytest.raises(WrongCheckpoint, match=r"a row of target that is off by 0\.5, where"):
        write_checkpoint(tmp_path / "out")
    assert [*tmp_path.iterdir()] == []


def test_an_unknown_kind_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidChain, match="of kind memory-1, memory-2, memory-3, heads, got 'x'"):
        write_checkpoint(tmp_path / "out", kind="x")
