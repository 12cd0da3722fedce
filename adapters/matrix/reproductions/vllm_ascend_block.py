"""vllm-ascend: block verification by its torch fallback, against the target's distribution.

    python vllm_ascend_block.py [VERSION...]

fetches the wheel of each version, imports its rejection sampler alone (what that imports of vLLM
and of the rest of the package is a mock), and verifies 400,000 drafts of three tokens. What is
emitted, and continued by the target where it is shorter, must have the target's distribution. Needs
torch and pip; ends with 1 if a version's distribution is wrong.

Each version is asked again without draft rows, with 20,000 drafts that are always the same: that is
how the model runners of these releases call it, without pipeline parallelism. Two controls show
that nothing else is to blame: 0.23.0 with block verification switched off, and 0.19.1rc1 with the
residual mass of a prefix taken from the row behind it, not from its last one.
"""

import importlib.util
import itertools
import math
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import torch

MASS = "flat_current_token_indices = flat_indices[flat_intermediate_mask]"
VERSIONS = ("0.18.0", "0.19.1rc1", "0.23.0", "0.26.0rc1")
CALLS, FEWER, BATCH, LENGTH = 800, 40, 500, 3

TARGET = torch.tensor([[1 / 2, 1 / 2], [1 / 4, 3 / 4], [3 / 4, 1 / 4], [1 / 2, 1 / 2]])
DRAFT = torch.tensor([[3 / 4, 1 / 4], [3 / 4, 1 / 4], [1 / 4, 3 / 4]])
CERTAIN = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def sampler(version: str, folder: Path, *, block: bool, fixed: bool) -> MagicMock:
    """Return the module `vllm_ascend.sample.rejection_sampler` of a release."""
    name = "vllm_ascend/sample/rejection_sampler.py"
    system = ("--platform=manylinux_2_24_x86_64", "--platform=manylinux_2_34_x86_64")
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        + ["--python-version=3.11", *system, "-d", str(folder), f"vllm-ascend=={version}"],
        check=True,
    )
    zipfile.ZipFile(next(folder.glob("*.whl"))).extract(name, folder)
    source = (folder / name).read_text()
    if fixed:
        assert source.count(MASS) == 1
        (folder / name).write_text(source.replace(MASS, f"{MASS} + 1"))
    for line in source.splitlines():
        parts = line.split()[1].split(".") if line.startswith("from vllm") else []
        for depth in range(1, len(parts) + 1):
            sys.modules[".".join(parts[:depth])] = MagicMock(__path__=[])
    sys.modules["vllm.triton_utils"].HAS_TRITON = False
    sys.modules["vllm.v1.sample.rejection_sampler"].GREEDY_TEMPERATURE = 0
    sys.modules["vllm.v1.sample.rejection_sampler"].MAX_SPEC_LEN = 128
    sys.modules["vllm.v1.sample.rejection_sampler"].PLACEHOLDER_TOKEN_ID = -1
    sys.modules["vllm.v1.sample.rejection_sampler"].generate_uniform_probs = lambda count, *_: (
        torch.rand(count, dtype=torch.float64)
    )
    options = SimpleNamespace(enable_block_verify=block, enable_entropy_verify=False)
    options.posterior_threshold = options.posterior_alpha = 1.0
    config = SimpleNamespace(rejection_sampler_config=options, enable_reduce_sample=False)
    if "vllm_ascend.ascend_config" in sys.modules:
        sys.modules["vllm_ascend.ascend_config"].get_ascend_config = lambda: config
    if "vllm_ascend.utils" in sys.modules:
        sys.modules["vllm_ascend.utils"].is_310p = lambda: False
    spec = importlib.util.spec_from_file_location("rejection_sampler", folder / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.torch = Unpinned()
    return module


class Unpinned:
    """Torch, whose constructors pin no memory: this machine may have no device."""

    def __getattr__(self, name: str) -> object:
        found = getattr(torch, name)
        if name not in ("arange", "full", "ones", "tensor", "zeros"):
            return found
        return lambda *given, pin_memory=False, **options: found(*given, **options)


def emitted(module: MagicMock, version: str, *, has_rows: bool) -> torch.Tensor:
    """Return what is emitted for a batch of drafts: [B, L + 1], -1 behind the last token."""
    draft = DRAFT if has_rows else CERTAIN
    drafted = torch.multinomial(draft, BATCH, replacement=True).T.contiguous()
    rows = TARGET[:-1].repeat(BATCH, 1)
    return module.rejection_sample(
        drafted.flatten().int(),
        [LENGTH] * BATCH,
        LENGTH,
        torch.arange(1, BATCH + 1, dtype=torch.int32) * LENGTH,
        DRAFT.repeat(BATCH, 1) if has_rows else None,
        rows.log() if version >= "0.18" else rows,
        torch.multinomial(TARGET[-1:], BATCH, replacement=True).T.int(),
        SimpleNamespace(
            all_greedy=False, all_random=True, temperature=torch.ones(BATCH), generators={}
        ),
    )


def main() -> int:
    torch.manual_seed(0)
    versions = sys.argv[1:] or VERSIONS
    worst = [judged(version) for version in versions]
    judged("0.23.0", block=False)
    judged("0.19.1rc1", fixed=True)
    for version in versions:
        torch.manual_seed(0)
        worst.append(judged(version, has_rows=False))
    return int(max(worst) > 6)


def judged(
    version: str, *, block: bool = True, has_rows: bool = True, fixed: bool = False
) -> float:
    """Print how often each text comes, and return the largest deviation, in standard errors."""
    with tempfile.TemporaryDirectory() as folder:
        module = sampler(version, Path(folder), block=block, fixed=fixed)
        calls = [
            emitted(module, version, has_rows=has_rows) for _ in range(CALLS if has_rows else FEWER)
        ]
        found = torch.cat(calls).long()
    accepted = (found != -1).double().sum(1).mean() - 1
    how = f"{version}, {'block' if block else 'token'}{'' if has_rows else ', no draft rows'}"
    how += ", fixed" if fixed else ""
    print(f"vllm-ascend {how}: {accepted:.4f} drafted tokens are accepted on average")
    own = torch.multinomial(TARGET, len(found), replacement=True).T
    text = torch.where(found == -1, own, found)[:, :LENGTH]
    deviations = []
    for tokens in itertools.product(range(2), repeat=LENGTH):
        seen = (text == torch.tensor(tokens)).all(1).double().mean().item()
        owed = math.prod(TARGET[depth, token].item() for depth, token in enumerate(tokens))
        deviations.append((seen - owed) / math.sqrt(owed * (1 - owed) / len(text)))
        print(f"  text {tokens}: {seen:.4f}, must be {owed:.4f}: {deviations[-1]:+.1f} sigma")
    return max(map(abs, deviations))


if __name__ == "__main__":
    sys.exit(main())
