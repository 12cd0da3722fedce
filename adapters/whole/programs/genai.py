"""OpenVINO GenAI: continuous batching, with a draft model, an EAGLE-3 head, or prompt lookup."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from secrets import randbits

import numpy
import openvino
import openvino_genai
from answering import Request, Started, answer

LENGTH = 3
"""Drafted tokens in a step."""

BEGIN = 1
"""The token that begins a text."""


def exported(folder: str, name: str) -> str:
    """Return the folder of a model in OpenVINO's format, after writing it."""
    path = Path(folder) / "openvino" / name
    if not (path / "openvino_model.bin").exists():
        command = (sys.executable, "-m", "optimum.commands.optimum_cli", "export", "openvino")
        own = ("--task", "text-generation-with-past", "--weight-format", "fp32")
        source = str(Path(folder) / name)
        subprocess.run([*command, "--model", source, *own, str(path)], check=True)
    return str(path)


def eagle(folder: str, name: str) -> str:
    """Return the folder of an EAGLE-3 head, or of the target that it reads, after writing both."""
    path = Path(folder) / "openvino" / f"eagle-3-{name}"
    if not (path.with_name("eagle-3-head") / "openvino_model.xml").exists():
        subprocess.run([sys.executable, Path(__file__).with_name("eagle.py"), folder], check=True)
    return str(path)


def start(folder: str, speculation: str) -> Started:
    """Return the version, and what answers."""
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 1
    options = {
        "none": {},
        "draft": {"draft_model": openvino_genai.draft_model(exported(folder, "draft"), "CPU")},
        "self": {"draft_model": openvino_genai.draft_model(exported(folder, "target"), "CPU")},
        "lookup": {"prompt_lookup": True},
    }
    target = exported(folder, "target")
    if speculation == "eagle":
        target = eagle(folder, "target")
        options[speculation] = {
            "draft_model": openvino_genai.draft_model(eagle(folder, "head"), "CPU")
        }
    pipeline = openvino_genai.ContinuousBatchingPipeline(
        target, scheduler, "CPU", options[speculation]
    )

    # A head needs prompts of two tokens or more; with a memory of 1 only the last one counts.
    before = [BEGIN] if speculation == "eagle" else []

    def config(asked: Request) -> openvino_genai.GenerationConfig:
        own = openvino_genai.GenerationConfig()
        own.do_sample = True
        own.apply_chat_template = False
        own.ignore_eos = True
        own.max_new_tokens = asked["max_tokens"]
        own.temperature = asked["temperature"]
        own.top_k = asked["top_k"] or 2**31
        own.top_p = asked["top_p"] or 1.0
        own.rng_seed = randbits(31) if asked["seed"] is None else asked["seed"]
        if speculation != "none":
            own.num_assistant_tokens = LENGTH
        if speculation == "lookup":
            own.max_ngram_size = 2
        return own

    def generate(requests: list[Request]) -> list[list[int]]:
        prompts = [openvino.Tensor(numpy.array([[*before, *each["prompt"]]])) for each in requests]
        found = pipeline.generate(prompts, [config(each) for each in requests])
        return [[int(token) for token in each.m_generation_ids[0]] for each in found]

    return version("openvino-genai"), generate


if __name__ == "__main__":
    answer(start)
