"""Sequoia: a tree verified by `SpecTree` and by `SpecInferTree`, against the target's only text.

    python sequoia_verify.py

fetches four files of Infini-AI-Lab/Sequoia at one commit, and drafts and verifies two siblings
1,000 times with each tree, built by its own constructor. Tables stand for the two engines. The
target is certain of every token, so that there is one text that may come. Needs torch; ends with 1
if another text comes.

DRAFTPROOF_SOURCES may name a folder with the files, as OWNER/NAME/COMMIT/path, if there is no
network.

A control shows that nothing else is to blame: the same trees, which gather what they have accepted
before they write the next token.
"""

import importlib
import os
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock
from urllib.request import urlopen

import torch

COMMIT = "Infini-AI-Lab/Sequoia/0ff3ff71475ca148f2dfb7545e0de5caf5c67b39"
FILES = {
    "Tree/SpecTree.py": "ff7318d88785bed478e8f21b1415ebcd25399df3c66aa499343fca2854342174",
    "Tree/SpecInferTree.py": "fb9c8bd5dcd8c32544642e9209598f187d3f07747aba40bac3da784300ee318e",
    "Tree/Tree.py": "f7eb3c446b262e81a8562dc873511c3096079aa15e0e3ddedd1a357f5ab765a1",
    "utils.py": "5d7091d83f2947f7425461e80e442f0cc70fe6c0f8981b129f869acfe5abd80f",
}
GATHER = "        self.tokens[:accept_length] = self.tokens[accept_list]\n"
WRITE = "        if not terminal:\n"

TEXTS, ROOM, NEVER = 1_000, 16, -10_000.0
# Tokens 0 and 2 end a text to Sequoia.
PROMPT, A, B, C, OTHER, VOCABULARY = 3, 4, 5, 6, 7, 8
NAMES = {A: "a", B: "b", C: "c", OTHER: "d"}


def row(*tokens: int) -> torch.Tensor:
    """Return the logits of a row that is uniform on some tokens."""
    logits = torch.full((VOCABULARY,), NEVER, dtype=torch.float16)
    logits[list(tokens)] = 0
    return logits


# What follows a token: the target says b after the prompt, c after b; a or b is drafted.
TARGET = torch.stack([row(OTHER)] * PROMPT + [row(B), row(OTHER), row(C), row(OTHER), row(OTHER)])
DRAFT = torch.stack([row(OTHER)] * PROMPT + [row(A, B)] + [row(OTHER)] * 4)


def fetched(path: str) -> str:
    own = os.environ.get("DRAFTPROOF_SOURCES")
    host = Path(own).resolve().as_uri() if own else "https://raw.githubusercontent.com"
    with urlopen(f"{host}/{COMMIT}/{path}", timeout=60) as answer:
        content = answer.read()
    assert sha256(content).hexdigest() == FILES[path], path
    return content.decode()


def imported(tree: str, *, fixed: bool) -> tuple[ModuleType, ModuleType]:
    for name in [name for name in sys.modules if name.split(".")[0] in ("Tree", "utils")]:
        del sys.modules[name]
    sys.modules["Engine"] = sys.modules["Engine.Engine"] = MagicMock()
    with TemporaryDirectory() as folder:
        (Path(folder) / "Tree").mkdir()
        for path in FILES:
            source = fetched(path)
            if fixed and path == f"Tree/{tree}.py":
                above, below = source.split(GATHER)
                above, written = above.rsplit(WRITE, 1)
                source = above + GATHER + WRITE + written + below
            (Path(folder) / path).write_text(source)
        importlib.invalidate_caches()
        sys.path.insert(0, folder)
        try:
            return importlib.import_module(f"Tree.{tree}"), importlib.import_module("utils")
        finally:
            sys.path.remove(folder)


def engine(table: torch.Tensor) -> SimpleNamespace:
    """Return an engine whose model looks at the last token alone."""

    def said(input_ids: torch.Tensor, **_: object) -> torch.Tensor:
        return table[input_ids]

    inner = SimpleNamespace(
        max_length=ROOM, kv_cache=SimpleNamespace(gather_kv_incremental=lambda *_: None)
    )
    return SimpleNamespace(engine=inner, dtype=torch.float16, inference=said, graph_inference=said)


def emitted(module: ModuleType, utils: ModuleType, tree: str) -> tuple[tuple[int, ...], ...]:
    """Draft two siblings and verify them; return them, and what is emitted."""
    grow_map = {
        "roots": [[0], [1, 2]],
        "branches": [[2], [0, 0]],
        "Successors": [[1, 2], [], []],
        "mask": torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]]),
        "depth": torch.tensor([0, 1, 1]),
        "size": 3,
    }
    made = getattr(module, tree)(
        draft_model_engine=engine(DRAFT),
        target_model_engine=engine(TARGET),
        prefix=torch.tensor([PROMPT]),
        temperature=1.0,
        top_p=1.0,
        max_length=ROOM,
        max_target_seq=ROOM,
        vocab_size=VOCABULARY,
        grow_map=grow_map,
        attn_mask=torch.zeros(ROOM, ROOM, dtype=torch.float16),
        position_ids=torch.zeros(ROOM, dtype=torch.long),
        residual_graph=utils.get_residual,
        sampling_callables={
            0: lambda logits, noise: utils.sampling_without_replacement(logits, noise, 2, 1.0)
        },
        sample_gather_indices={0: torch.tensor([0, 1])},
    )
    made.construct_grow_map()
    drafted = tuple(made.tokens[1:3].tolist())
    text, *_ = made.verify()
    return drafted, tuple(text[1:].tolist())


def judged(tree: str, *, fixed: bool = False) -> int:
    """Print how often each draft gives each text, and return how often another text comes."""
    module, utils = imported(tree, fixed=fixed)
    torch.manual_seed(0)
    seen = Counter(emitted(module, utils, tree) for _ in range(TEXTS))
    print(f"{tree}{', fixed' if fixed else ''}: the target's only text is b c")
    wrong = 0
    for (drafted, text), count in sorted(seen.items()):
        is_right = text == (B, C)[: len(text)]
        wrong += 0 if is_right else count
        said = " ".join(NAMES.get(token, str(token)) for token in text)
        siblings = " ".join(NAMES.get(token, str(token)) for token in drafted)
        print(f"  siblings {siblings}: {said}{'' if is_right else ' (wrong)'}, {count} times")
    error = (wrong / TEXTS * (1 - wrong / TEXTS) / TEXTS) ** 0.5
    print(f"  another text: {wrong / TEXTS:.3f} +- {error:.3f}, must be 0")
    return wrong


def main() -> int:
    wrong = [judged(tree) for tree in ("SpecTree", "SpecInferTree")]
    for tree in ("SpecTree", "SpecInferTree"):
        judged(tree, fixed=True)
    return int(any(wrong))


if __name__ == "__main__":
    sys.exit(main())
