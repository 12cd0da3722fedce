"""OpenVINO GenAI 2026.4.1: speculative decoding with sampling changes the distribution.

    pip install openvino-genai==2026.4.1 optimum-intel==2.2.0 torch==2.13.0

A random Llama of eight tokens is its own draft, so every drafted token ought to be kept. The third
token behind a prompt is compared with its exact distribution under the model. Ends with 1 while it
is wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy

TOKENS, TEXTS, PROMPT = 8, 4000, [1, 2, 3]


def model(folder: Path) -> list[float]:
    """Write a random model, and return the distribution of the third token behind the prompt."""
    # OpenVINO crashes in a process that has loaded torch: this runs in another one.
    import torch
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=TOKENS,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=1,
        initializer_range=0.3,
        max_position_embeddings=64,
    )
    made = LlamaForCausalLM(config).eval()
    made.save_pretrained(folder)
    words = {chr(97 + each): each for each in range(TOKENS)}
    tokenizer = Tokenizer(models.BPE(words, [], unk_token="a"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="a").save_pretrained(folder)
    chances = numpy.zeros(TOKENS)
    with torch.no_grad():
        for first in range(TOKENS):
            for second in range(TOKENS):
                text = torch.tensor([[*PROMPT, first, second]])
                rows = made(text).logits[0].double().softmax(-1).numpy()
                before = rows[len(PROMPT) - 1, first] * rows[len(PROMPT), second]
                chances += before * rows[len(PROMPT) + 1]
    return [float(each) for each in chances]


def written(folder: str, *, speculates: bool) -> Counter[int]:
    """Return how often each token was the third."""
    import openvino
    import openvino_genai

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 1
    options = {"draft_model": openvino_genai.draft_model(folder, "CPU")} if speculates else {}
    pipeline = openvino_genai.ContinuousBatchingPipeline(folder, scheduler, "CPU", options)
    found: Counter[int] = Counter()
    random = Random(0)
    for _ in range(TEXTS // 100):
        configs = []
        for _ in range(100):
            config = openvino_genai.GenerationConfig()
            config.do_sample, config.ignore_eos, config.apply_chat_template = True, True, False
            config.temperature, config.top_p, config.top_k = 1.0, 1.0, 2**31
            config.max_new_tokens, config.rng_seed = 4, random.getrandbits(31)
            if speculates:
                config.num_assistant_tokens = 3
            configs.append(config)
        prompts = [openvino.Tensor(numpy.array([PROMPT]))] * 100
        for each in pipeline.generate(prompts, configs):
            found[each.m_generation_ids[0][2]] += 1
    return found


def main() -> int:
    """Print both distances, and return 1 if speculation is off by more than chance."""
    with TemporaryDirectory() as folder:
        source, exported = Path(folder) / "model", Path(folder) / "openvino"
        made = subprocess.run(
            [sys.executable, __file__, str(source)], check=True, stdout=subprocess.PIPE, text=True
        )
        exact = numpy.array(json.loads(made.stdout))
        export = ("-m", "optimum.commands.optimum_cli", "export", "openvino")
        task = ("--task", "text-generation-with-past", "--weight-format", "fp32")
        subprocess.run(
            [sys.executable, *export, "--model", str(source), *task, str(exported)],
            check=True,
            capture_output=True,
        )
        wrong = False
        for name, speculates in (("no speculation", False), ("draft = target, 3 tokens", True)):
            found = written(str(exported), speculates=speculates)
            shares = numpy.array([found[token] / TEXTS for token in range(TOKENS)])
            distance = abs(shares - exact).sum() / 2
            # A correct engine is off by .011 on average, and seldom by more than .02.
            wrong |= distance > 0.05
            print(f"{name}: the third token is off by {distance:.3f}")
            print(f"  exact    {' '.join(f'{each:.3f}' for each in exact)}")
            print(f"  written  {' '.join(f'{each:.3f}' for each in shares)}")
    return int(wrong)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(model(Path(sys.argv[1]))))
    else:
        sys.exit(main())
