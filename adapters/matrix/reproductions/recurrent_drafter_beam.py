"""ReDrafter: beams of several paths verified above temperature 0, against the target.

    python recurrent_drafter_beam.py

fetches one file of apple/ml-recurrent-drafter at one commit, imports it by itself (what it imports
of its package, and transformers, are mocks), and verifies 200,000 beams per case by its
`_accept_candidate_tokens`. Only what keeps the accepted tokens and the cache is replaced: it says
which path was chosen. What is emitted, and continued by the target where it is shorter, must have
the target's distribution. Needs torch; ends with 1 if it has not with several sampled paths.

DRAFTPROOF_SOURCES may name a folder with the file, as OWNER/NAME/COMMIT/path, if there is no
network.

Beams are sampled from the draft, as the rule needs, or hold its most probable paths, as those of
the project's drafter do, which is the matter of its issue 6. Two controls show that nothing else is
to blame: one sampled path, and all beams verified by tokens that are sampled from the target first.
"""

import itertools
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from hashlib import sha256
from math import prod, sqrt
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock
from urllib.request import urlopen

import torch

COMMIT = "apple/ml-recurrent-drafter/bd8586bb9bbfa761644c36f932a0cd1eb3f1cdf9"
FILE = "recurrent_drafting/recurrent_drafting.py"
DIGEST = "38f075466b2f78a8c0f292758d87f523603549e6c78dd4fca785f3bbdd1ff733"
PACKAGE = "recurrent_drafting"

START = "    log_probs_by_llm = (logits_by_llm / temperature).log_softmax(dim=-1)\n"
END = "    return last_token_state, input_ids, next_tokens, n_tokens_in_seq\n"
FIXED = """\
    # Draw the LLM's token of every position first, once for all paths (the Gumbel-max trick):
    # paths with the same prefix have the same token, and the greedy rule follows it.
    noise = -torch.empty_like(logits_by_llm[:, :1]).exponential_().log()
    return _greedy_accept_candidate_tokens(
        input_ids,
        beams,
        logits_by_llm / temperature + noise,
        last_hidden_state,
        cache,
        pad_token_id,
        step_record,
    )
"""

VERIFIED = 200_000

# Rows by depth; what comes before does not matter. Behind the draft the target's row is the last.
Rows = tuple[list[list[float]], list[list[float]]]
SMALLEST = [[0.0, 1 / 2, 1 / 2], [1.0, 0.0, 0.0]], [[1 / 2, 1 / 2, 0.0]]
LONGER = [[1 / 4, 3 / 4], [3 / 4, 1 / 4], [1 / 2, 1 / 2]], [[3 / 4, 1 / 4], [1 / 2, 1 / 2]]


def imported(*, fixed: bool) -> ModuleType:
    own = os.environ.get("DRAFTPROOF_SOURCES")
    host = Path(own).resolve().as_uri() if own else "https://raw.githubusercontent.com"
    with urlopen(f"{host}/{COMMIT}/{FILE}", timeout=60) as answer:
        content = answer.read()
    assert sha256(content).hexdigest() == DIGEST
    source = content.decode()
    if fixed:
        above, below = source.split(START)
        _, below = below.split(END, 1)
        source = above + FIXED + below
    sys.modules[PACKAGE] = MagicMock()
    sys.modules["transformers"] = MagicMock()
    module = ModuleType(f"{PACKAGE}.{PACKAGE}")
    module.__package__ = PACKAGE
    sys.modules[module.__name__] = module
    exec(compile(source, FILE, "exec"), vars(module))
    vars(module).update(_update_kv_cache_and_input_ids=lambda *, seq_in_beam, **_: seq_in_beam)
    return module


def sampled(draft: torch.Tensor, width: int, *, distinct: bool) -> torch.Tensor:
    """Return beams of paths drawn from the draft, different or independent ones: [B, K, L]."""
    length, tokens = draft.shape
    paths = torch.tensor([*itertools.product(range(tokens), repeat=length)])
    chances = draft[torch.arange(length), paths].prod(-1)
    drawn = chances.expand(VERIFIED, -1).multinomial(width, replacement=not distinct)
    return paths[drawn]


def most_probable(draft: torch.Tensor, width: int) -> torch.Tensor:
    """Return beams of the most probable paths, which its own drafter looks for: [B, K, L]."""
    length, tokens = draft.shape
    paths = torch.tensor([*itertools.product(range(tokens), repeat=length)])
    best = draft[torch.arange(length), paths].prod(-1).topk(width).indices.sort().values
    return paths[best].expand(VERIFIED, -1, -1)


Beams = Callable[[torch.Tensor], torch.Tensor]
CASES: dict[str, tuple[Rows, Beams]] = {
    "one sampled path": (SMALLEST, lambda draft: sampled(draft, 1, distinct=True)),
    "two distinct sampled paths": (SMALLEST, lambda draft: sampled(draft, 2, distinct=True)),
    "two independent sampled paths": (SMALLEST, lambda draft: sampled(draft, 2, distinct=False)),
    "the most probable path": (SMALLEST, lambda draft: most_probable(draft, 1)),
    "the two most probable paths": (SMALLEST, lambda draft: most_probable(draft, 2)),
    "two longer distinct sampled paths": (LONGER, lambda draft: sampled(draft, 2, distinct=True)),
}
JUDGED = "two distinct sampled paths", "two longer distinct sampled paths"


def judged(module: ModuleType, name: str, how: str) -> float:
    """Print how often each text comes, and return the largest deviation, in standard errors."""
    rows, drafted = CASES[name]
    target, draft = (torch.tensor(model).double() for model in rows)
    torch.manual_seed(0)
    beams = drafted(draft)
    width, length = beams.shape[1:]
    logits = target.log().clamp(min=-50_000).expand(VERIFIED, width, -1, -1)
    _, chosen, following, accepted = module._accept_candidate_tokens(
        input_ids=None,
        beams=torch.nn.functional.pad(beams, (1, 0)),
        log_probs_by_drafter=draft.log().clamp(min=-50_000).expand(VERIFIED, width, -1, -1),
        logits_by_llm=logits,
        last_hidden_state=logits[..., :1],
        cache=None,
        pad_token_id=-1,
        temperature=1.0,
        step_record=SimpleNamespace(time=lambda _: nullcontext()),
    )
    path = torch.nn.functional.pad(beams[torch.arange(VERIFIED), chosen], (0, 1))
    path[torch.arange(VERIFIED), accepted] = following
    own = target.multinomial(VERIFIED, replacement=True).T
    text = torch.where(torch.arange(length + 1) <= accepted[:, None], path, own)[:, :length]
    print(f"{name}{how}: {accepted.double().mean():.3f} drafted tokens are accepted on average")
    deviations = [0.0]
    for tokens in itertools.product(range(target.shape[1]), repeat=length):
        seen = (text == torch.tensor(tokens)).all(1).double().mean().item()
        owed = prod(target[depth, token].item() for depth, token in enumerate(tokens))
        error = sqrt(owed * (1 - owed) / VERIFIED)
        if error:
            deviations.append((seen - owed) / error)
            print(f"  text {tokens}: {seen:.4f}, must be {owed:.4f}: {deviations[-1]:+.1f} sigma")
        else:
            assert seen == owed
    return max(map(abs, deviations))


def main() -> int:
    released, fixed = imported(fixed=False), imported(fixed=True)
    worst = {name: judged(released, name, "") for name in CASES}
    for name in CASES:
        judged(fixed, name, ", fixed")
    return int(max(worst[name] for name in JUDGED) > 6)


if __name__ == "__main__":
    sys.exit(main())
