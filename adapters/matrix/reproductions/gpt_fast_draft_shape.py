"""gpt-fast: generation with a draft model, by its own `generate` and its own `Transformer`.

    python gpt_fast_draft_shape.py

fetches two files of meta-pytorch/gpt-fast at three commits, has two tiny models of random weights
write three tokens, and prints what comes of it: the error, or how far the texts of 1,000 runs are
from the target's distribution. Only `tokenizer`, which is not used, is replaced; nothing is
compiled, so that a CPU will do. Needs torch; ends with 1 if the newest commit raises, or if its
distribution is wrong.

DRAFTPROOF_SOURCES may name a folder with the files, as OWNER/NAME/COMMIT/path, if there is no
network.

Two controls show that nothing else is to blame: the last commit before batches came in, and the
others with the shapes fixed, one statement after the other.
"""

import importlib
import itertools
import math
import os
import sys
import traceback
import warnings
from collections import Counter
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from unittest.mock import MagicMock, patch
from urllib.request import urlopen

import torch

REPOSITORY = "meta-pytorch/gpt-fast"
BEFORE = "bc04265df30c7b927d38f34198e0e33a63cb893e"
BATCHED = "61c193da2def2732f44e3b6e86e8d8c1be8dca75"
NEWEST = "6ecad9b5b6b987d17ac4303965545873d0192086"
DIGESTS = {
    (BEFORE, "generate"): "ac3603db88518ff8f987d73922f5410efb14bf7ab3996e28053bdda86e88a924",
    (BEFORE, "model"): "16152c80385d778da27da3c0e8829e43e8975f8cff2617069970aad52021973a",
    (BATCHED, "generate"): "ccbf0ddee5e64d802ff7fb13a32205b2ab4380f4b72f6927016e8cf0b40afa9c",
    (BATCHED, "model"): "16152c80385d778da27da3c0e8829e43e8975f8cff2617069970aad52021973a",
    (NEWEST, "generate"): "f29a485b0c922b302487d437a76e16fa4f4359a1a1ee32254009dc9c924fa401",
    (NEWEST, "model"): "bf90fc72da18cbdb344a8f272b5042a3ddc4e6ae0da84d452a2f8cf04ab7cb73",
}

# The statements, as released and fixed.
TOKENS = (
    "draft_tokens = torch.cat(draft_tokens)",
    "draft_tokens = torch.cat(draft_tokens).view(-1)",
)
TEXT = (
    "seq[input_pos + 1 : input_pos + num_added + 1]",
    "seq[0, input_pos + 1 : input_pos + num_added + 1]",
)
ROWS = ("draft_probs = torch.stack(draft_probs)", "draft_probs = torch.cat(draft_probs)")
MASK = (
    "    return model(x, input_pos)\n",
    """\
    mask = create_block_mask(
        lambda b, h, q, kv: causal_mask(b, h, q + input_pos[0], kv),
        1, 1, input_pos.shape[0], model.max_seq_length, device=x.device,
    )
    mask.mask_mod = causal_mask  # the model adds the offset itself
    return model(mask, x, input_pos)
""",
)

VOCABULARY, PROMPT, WRITTEN, DRAFTED, TEXTS = 3, [0, 1], 3, 2, 1_000


def fetched(commit: str, name: str) -> str:
    own = os.environ.get("DRAFTPROOF_SOURCES")
    host = Path(own).resolve().as_uri() if own else "https://raw.githubusercontent.com"
    with urlopen(f"{host}/{REPOSITORY}/{commit}/{name}.py", timeout=60) as answer:
        content = answer.read()
    assert sha256(content).hexdigest() == DIGESTS[commit, name], name
    return content.decode()


def imported(commit: str, fixes: tuple[tuple[str, str], ...]) -> tuple[ModuleType, ModuleType]:
    sys.modules["tokenizer"] = MagicMock()
    searched = list(sys.path)
    with TemporaryDirectory() as folder, patch("torch.compile", lambda function: function):
        for name in ("generate", "model"):
            sys.modules.pop(name, None)
            source = fetched(commit, name)
            for stands, fixed in fixes if name == "generate" else ():
                assert source.count(stands) == 1, stands
                source = source.replace(stands, fixed)
            (Path(folder) / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("generate"), importlib.import_module("model")
        finally:
            sys.path[:] = searched


def made(module: ModuleType, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    form = module.ModelArgs(
        block_size=16, vocab_size=VOCABULARY, n_layer=1, n_head=2, dim=32, intermediate_size=16
    )
    model = module.Transformer(form).eval()
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.2)
    return model


@torch.no_grad()
def law(generate: ModuleType, model: torch.nn.Module) -> dict[tuple[int, ...], float]:
    model.setup_caches(max_batch_size=1, max_seq_length=16)
    owed = {}
    for text in itertools.product(range(VOCABULARY), repeat=WRITTEN):
        tokens = torch.tensor([PROMPT + list(text)])
        positions = torch.arange(tokens.shape[1])
        said = (tokens, positions)
        if hasattr(generate, "causal_mask"):
            length = len(positions)
            said = (
                generate.create_block_mask(generate.causal_mask, 1, 1, length, 16, device="cpu"),
                *said,
            )
        rows = model(*said)[0].softmax(-1)
        owed[text] = math.prod(
            rows[at, token].item() for at, token in enumerate(text, len(PROMPT) - 1)
        )
    return owed


def judged(commit: str, how: str, *fixes: tuple[str, str]) -> float:
    """Print what comes of a commit, and return the largest deviation, in standard errors."""
    generate, model = imported(commit, fixes)
    target, draft = made(model, 0), made(model, 1)
    options = {} if commit == BEFORE else {"batch_size": 1}
    owed, seen, accepted = law(generate, target), Counter(), 0
    torch.manual_seed(0)
    print(f"{commit[:7]}, {how}:")
    try:
        for _ in range(TEXTS):
            text, stats = generate.generate(
                target,
                torch.tensor(PROMPT),
                WRITTEN,
                draft_model=draft,
                speculate_k=DRAFTED,
                interactive=False,
                temperature=1.0,
                **options,
            )
            seen[tuple(text.flatten()[len(PROMPT) :].tolist())] += 1
            accepted += sum(count * number for count, number in enumerate(stats["accept_counts"]))
    except (AttributeError, RuntimeError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename.endswith("generate.py")][-1]
        said = str(error).splitlines()[0]
        print(f"  line {own.lineno}, {own.name}: {type(error).__name__}: {said}")
        return math.inf
    deviations = [
        (seen[text] / TEXTS - often) / math.sqrt(often * (1 - often) / TEXTS)
        for text, often in owed.items()
    ]
    distance = sum(abs(seen[text] / TEXTS - often) for text, often in owed.items()) / 2
    print(
        f"  {TEXTS} texts, {accepted / TEXTS:.2f} tokens accepted each: total variation distance "
        f"{distance:.3f}, largest deviation {max(map(abs, deviations)):.1f} sigma"
    )
    return max(map(abs, deviations))


def main() -> int:
    warnings.simplefilter("ignore")
    judged(BEFORE, "as it is")
    judged(BATCHED, "as it is")
    judged(BATCHED, "tokens fixed", TOKENS)
    judged(BATCHED, "tokens and rows fixed", TOKENS, ROWS)
    judged(BATCHED, "tokens, rows and text fixed", TOKENS, ROWS, TEXT)
    worst = judged(NEWEST, "as it is")
    judged(NEWEST, "tokens, rows and text fixed", TOKENS, ROWS, TEXT)
    judged(NEWEST, "tokens, rows, text and mask fixed", TOKENS, ROWS, TEXT, MASK)
    return int(worst > 6)


if __name__ == "__main__":
    sys.exit(main())
