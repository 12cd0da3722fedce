"""An EAGLE-3 head in OpenVINO's format, and the target that it reads: `python eagle.py FOLDER`.

The engine takes hidden states from three layers, where a checkpoint has one: the target gets three
layers before its own that write zeros. The head attends to the last token alone, and says the row
of the draft behind it. It runs in a process of its own, for OpenVINO crashes beside torch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import openvino
import torch
from optimum.exporters.openvino import main_export
from optimum.exporters.openvino.model_patcher import LlamaEagle3ForCausalLM, LlamaEagle3Model
from optimum.intel import OVConfig
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, PreTrainedModel

READ = "0 1 2"
"""The layers whose hidden states the head gets."""

GAIN = 2_000.0
"""The scale of scores, as in the checkpoint: all but the last token have less than 1e-12."""


def deepened(target: PreTrainedModel, path: Path) -> None:
    """Write the target behind three layers that write zeros."""
    layers = len(READ.split())
    target.config.num_hidden_layers = layers + 1
    found = AutoModelForCausalLM.from_config(target.config)
    weights = {name: torch.zeros_like(each) for name, each in found.state_dict().items()}
    for name, each in target.state_dict().items():
        weights[name.replace("layers.0.", f"layers.{layers}.")] = each
    found.load_state_dict(weights)
    found.generation_config = target.generation_config
    found.save_pretrained(path)


def head(target: PreTrainedModel, draft: PreTrainedModel, path: Path) -> None:
    """Write an EAGLE-3 head that says the rows of the draft."""
    config = LlamaConfig.from_dict(draft.config.to_dict())
    config.draft_vocab_size = config.vocab_size
    found = LlamaEagle3ForCausalLM(config)
    weights = {name: torch.zeros_like(each) for name, each in found.state_dict().items()}
    own = target.state_dict()
    width, half = config.hidden_size, config.head_dim // 2
    # As for a head of the checkpoint that looks back by no token: the embedding is the first half.
    constant = torch.cat([torch.ones(half), torch.zeros(half)])[:, None] * GAIN**0.5
    reads = torch.cat([torch.ones(width), torch.zeros(width)])
    eye = torch.eye(width)
    attention = "model.midlayer.self_attn"
    weights |= {
        "model.embed_tokens.weight": own["model.embed_tokens.weight"],
        "model.midlayer.input_layernorm.weight": own["model.layers.0.input_layernorm.weight"],
        f"{attention}.q_proj.weight": constant * reads,
        f"{attention}.k_proj.weight": constant * reads,
        f"{attention}.v_proj.weight": torch.cat([eye, 0 * eye], dim=1),
        f"{attention}.o_proj.weight": eye * own["model.embed_tokens.weight"].max(),
        "model.norm.weight": own["model.norm.weight"],
        "model.lm_head.weight": draft.state_dict()["lm_head.weight"],
        "model.t2d": torch.ones(config.vocab_size, dtype=torch.bool),
    }
    path.mkdir(parents=True)
    save_file(
        {name: each.contiguous() for name, each in weights.items()}, path / "model.safetensors"
    )
    told = {**config.to_dict(), "architectures": ["LlamaForCausalLMEagle3"]}
    (path / "config.json").write_text(json.dumps(told), encoding="utf-8")


def register() -> None:
    """Let the exporter find the head's class, which it finds for models from the hub alone."""
    AutoModelForCausalLM.register(LlamaConfig, LlamaEagle3ForCausalLM, exist_ok=True)
    for each in (LlamaEagle3Model, LlamaEagle3ForCausalLM):
        each.__module__ = LlamaConfig.__module__


def main(folder: Path) -> None:
    """Write both, export them, and say in the head's file which layers it reads."""
    target, draft = (
        AutoModelForCausalLM.from_pretrained(folder / name) for name in ("target", "draft")
    )
    tokenizer = AutoTokenizer.from_pretrained(folder / "target")
    written = folder / "eagle-3"
    head(target, draft, written / "head")
    deepened(target, written / "target")
    for name in ("target", "head"):
        tokenizer.save_pretrained(written / name)
        if name == "head":
            register()
        main_export(
            str(written / name),
            str(folder / "openvino" / f"eagle-3-{name}"),
            task="text-generation-with-past",
            library_name="transformers",
            ov_config=OVConfig(dtype="fp32"),
            convert_tokenizer=True,
        )
    file = folder / "openvino" / "eagle-3-head" / "openvino_model.xml"
    model = openvino.Core().read_model(file)
    model.set_rt_info(READ, ["hidden_layers_list"])
    text = file.with_name("told.xml")
    openvino.save_model(model, text, compress_to_fp16=False)
    del model
    text.replace(file)
    text.with_suffix(".bin").replace(file.with_suffix(".bin"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
