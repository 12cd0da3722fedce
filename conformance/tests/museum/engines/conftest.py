from __future__ import annotations

from pathlib import Path

import pytest

from draftproof.conformance.checkpoint.writing import write_checkpoint


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The folders of a checkpoint for each memory."""
    pytest.importorskip("transformers")
    pytest.importorskip("gguf")
    made = {}
    for memory in (1, 2):
        made[memory] = tmp_path_factory.mktemp("checkpoints") / f"memory-{memory}"
        write_checkpoint(made[memory], kind=f"memory-{memory}", vocabulary=11, zeros=1)
    return made
