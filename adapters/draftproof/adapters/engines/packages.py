"""Engines of the world by their methods: what a package verifies with, at whatever version.

`draftproof certify vllm` judges the methods that the installed package has, `vllm:v1` one of them;
`--source` is a checkout, an installed tree or a wheel, and `draftproof matrix --history vllm` goes
through what was released, or through a checkout's commits. The pinned rows of the matrix are the
same adapters.

An adapter of one of these is an attribute of `draftproof.adapters.engines`: "vllm/v1" as installed,
"vllm/v1==0.33.0" of the index, "vllm/v1@PATH" of a source, "vllm/v1@PATH#COMMIT" of a commit of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

from draftproof.adapters.engines.index import listed
from draftproof.adapters.engines.released import MovedOn, Unavailable
from draftproof.adapters.engines.sources import (
    Found,
    at,
    at_commit,
    commits,
    installed,
    of_index,
)

PLACE = "draftproof.adapters.engines"


@dataclass(frozen=True)
class EngineMethod:
    """A way in which an engine verifies drafts, and the adapter that calls it."""

    algorithm: str
    versions: str
    """The versions that the adapter can judge, in words."""
    needs: Mapping[str, str]
    """Files of the package that have the method, any of them, each with a text that is in it."""
    made: tuple[Any, ...]
    """The module, the class, and what it is made with before the release."""
    mode: str = "quick"
    cases: tuple[str, ...] = ()
    """The cases that are asked where nobody says which, none for all."""
    why: str = ""
    """The reason why the others are not."""
    note: str = ""
    """The stand-ins for parts of the engine."""

    def adapter(self, release: Found) -> Any:
        """Make the adapter of a release. Raises what its class does, `Unavailable` among it."""
        module, name, *options = self.made
        return getattr(import_module(f"{PLACE}.{module}"), name)(*options, release=release)

    def is_in(self, release: Found) -> bool:
        """Return True if the package has the method."""
        return any(
            release.has(member)
            and text in (release.folder() / member).read_text(encoding="utf-8", errors="replace")
            for member, text in self.needs.items()
        )

    def lack(self, release: Found) -> str:
        """Return what a package without the method lacks: its file, or a text in it."""
        present = [member for member in self.needs if release.has(member)]
        if not present:
            return f"there is no file {' or '.join(self.needs)}"
        return f"{present[0]} has no {self.needs[present[0]].strip()!r}"


@dataclass(frozen=True)
class PastVersion:
    """A version of an engine that was: its name, its day, and the place of the adapter."""

    version: str
    day: str
    said: str
    """The subject of the commit, empty for a release."""
    adapter: str


@dataclass(frozen=True)
class EnginePackage:
    """An engine's package: its name in an index, its title, its import name, and its methods."""

    name: str
    title: str
    package: str
    extras: str
    """The extras of Draftproof that its adapters need."""
    methods: Mapping[str, EngineMethod]

    def found(self, source: str = "") -> Found:
        """Return the package of a source, the installed one without. Raises `Unavailable`."""
        if not source:
            return installed(self.name, self.package)
        path, mark, commit = source.partition("#")
        if mark and not commit:
            raise Unavailable(f"{source!r} names no commit after the #")
        return (
            at_commit(Path(path), self.package, commit) if commit else at(Path(path), self.package)
        )

    def judged(self, source: str = "") -> dict[str, str]:
        """Return the places of the adapters of the methods that a source has, by method.

        Raises `Unavailable` if there is no such source.
        """
        release = self.found(source)
        return {
            name: self.place(name, f"@{source}" if source else "")
            for name, method in self.methods.items()
            if method.is_in(release)
        }

    def place(self, method: str, where: str) -> str:
        """Return the place of an adapter, as `load_adapter` takes it."""
        return f"{PLACE}:{self.name}/{method}{where}"

    def past(self, method: str, *, since: date, source: str = "") -> list[PastVersion]:
        """Return the releases, or the commits of a checkout that touched the files of a method.

        They begin with `since`, the oldest is first. Files that the method used in the oldest of
        them count, even if it has left them since. Raises `Unavailable`.
        """
        if not source:
            return [
                PastVersion(
                    each.version, str(each.day), "", self.place(method, f"=={each.version}")
                )
                for each in listed(self.name)
                if each.day >= since
            ]
        path = Path(source).expanduser().resolve()
        used = _used(self.methods[method], self.found(source))
        found = commits(path, used, since=str(since))
        # The oldest may have the package in another folder, or not at all.
        with suppress(Unavailable, IndexError):
            oldest = at_commit(path, self.package, found[0][0])
            used += _used(self.methods[method], oldest)
            found = commits(path, used, since=str(since))
        return [
            PastVersion(whole[:12], day, said, self.place(method, f"@{path}#{whole}"))
            for whole, day, said in found
        ]

    def used(self, source: str) -> list[str]:
        """Return the files of the methods that a source has, and of all that they import.

        Raises `Unavailable` if there is no such source.
        """
        release = self.found(source)
        present = [method for method in self.methods.values() if method.is_in(release)]
        return [*dict.fromkeys(file for method in present for file in _used(method, release))]


def _used(method: EngineMethod, release: Found) -> list[str]:
    """Return the files of a method, and those that its adapter imports of the release."""
    used = [member for member in method.needs if release.has(member)] or [*method.needs]
    try:
        method.adapter(release)
    except Exception:
        return used
    return [*dict.fromkeys([*used, *release.members])]


_SLOW = "its kernels are interpreted, which is slow"
_FEW = ("generic.v2.l2", "zeros.draft")
"""Two small cases: with two tokens, any residual has one token and any weights look correct; on the
second case the residual has two."""
_WARM = "Rows at temperature 0, and drafts without probabilities, are not judged."
_CALLED = (
    "Its function rejection_sample is called; torch draws the bonus, and RejectionSampler.forward, "
    f"which prepares the rows and the bonus, is not judged. {_WARM}"
)
_V1 = "vllm/v1/sample/rejection_sampler.py"
_V2 = "vllm/v1/worker/gpu/spec_decode/rejection_sampler_utils.py"
_V0 = "vllm/model_executor/layers"
_ASCEND = {"vllm_ascend/sample/rejection_sampler.py": "def rejection_sample("}
_SGLANG = {
    f"sglang/{folder}/reject_sampling.py": "def chain_speculative_sampling_triton"
    for folder in ("kernels/ops/speculative", "srt/speculative")
}
_APHRODITE_V0 = "aphrodite/modeling/layers"
_MTP = "Its generator and model are doubles; MLX's draws are torch's, the draft is the request's."
_AGREED = "Its job and its models are doubles; its sampler, of its extension, is torch's draw."
_MEGATRON = "megatron/core/inference/text_generation_controllers/text_generation_controller.py"
_NEMO = "nemo_automodel/components/speculative"
_RBLN = "vllm_rbln/v1/sample/rbln_rejection_sampler.py"
_FED = (
    "Its random numbers are torch's, not its own generator's; libdevice's log1p is log(1 + x). "
    f"{_WARM}"
)
_BONUS = "The bonus is drawn by torch, as the engine's caller draws it."
_COINS = "Torch draws the coins, as the engine's caller does; both thresholds are 1."
_UNPINNED = (
    "Torch's constructors pin no memory; functions of vLLM 0.33 stand for those of its own vLLM. "
    f"{_WARM}"
)

PACKAGES = {
    each.name: each
    for each in (
        EnginePackage(
            "vllm",
            "vLLM",
            "vllm",
            "torch,triton",
            {
                "v0": EngineMethod(
                    "token",
                    "0.5.5 to 0.9",
                    {f"{_V0}/rejection_sampler.py": "class RejectionSampler"},
                    ("vllm", "RejectionSampler"),
                    cases=("!wide.*",),
                    why="cases of wide, mostly masked rows take minutes and gigabytes",
                    note=_BONUS,
                ),
                "v0-typical": EngineMethod(
                    "token",
                    "0.5.5 to 0.9",
                    {f"{_V0}/typical_acceptance_sampler.py": "class TypicalAcceptanceSampler"},
                    ("vllm", "TypicalAcceptanceSampler"),
                    note=_BONUS,
                ),
                "v1": EngineMethod(
                    "token",
                    "0.8.5 and later",
                    {_V1: "def rejection_sample("},
                    ("vllm", "V1"),
                    mode="standard",
                    cases=_FEW,
                    why=_SLOW,
                    note=_CALLED,
                ),
                "v2-token": EngineMethod(
                    "token",
                    "0.31 and later",
                    {_V2: "def rejection_sample("},
                    ("vllm", "ModelRunner", "token"),
                    mode="standard",
                    cases=_FEW,
                    why=_SLOW,
                    note=_FED,
                ),
                "v2-block": EngineMethod(
                    "block",
                    "0.31 and later",
                    {_V2: "use_block_verification"},
                    ("vllm", "ModelRunner", "block"),
                    mode="standard",
                    cases=_FEW,
                    why=_SLOW,
                    note=_FED,
                ),
            },
        ),
        EnginePackage(
            "vllm-ascend",
            "vllm-ascend",
            "vllm_ascend",
            "torch,triton",
            {
                "token": EngineMethod(
                    "token",
                    "0.13 and later",
                    _ASCEND,
                    ("vllm_ascend", "AscendRejectionSample", "token"),
                    cases=("generic.v2.l2", "generic.v3.l2"),
                    why="it verifies by token up to two drafted tokens, in every version",
                    note=_UNPINNED,
                ),
                "block": EngineMethod(
                    "block",
                    "0.13 and later",
                    dict.fromkeys(_ASCEND, "block_verify"),
                    ("vllm_ascend", "AscendRejectionSample", "block"),
                    mode="standard",
                    cases=("generic.v?.l3", "lost-then-won"),
                    why="it verifies by block from three drafted tokens on",
                    note=_UNPINNED,
                ),
            },
        ),
        EnginePackage(
            "sglang",
            "SGLang",
            "sglang",
            "torch,triton",
            {
                "token": EngineMethod(
                    "token",
                    "0.5.14 and later",
                    _SGLANG,
                    ("sglang", "Chain", "token"),
                    mode="standard",
                    cases=_FEW,
                    why=_SLOW,
                    note=_COINS,
                ),
                "block": EngineMethod(
                    "block",
                    "0.5.14 and later",
                    dict.fromkeys(_SGLANG, "block_verification"),
                    ("sglang", "Chain", "block"),
                    mode="standard",
                    cases=_FEW,
                    why=_SLOW,
                    note=_COINS,
                ),
            },
        ),
        EnginePackage(
            "lmdeploy",
            "LMDeploy",
            "lmdeploy",
            "torch,triton",
            {
                backend: EngineMethod(
                    "token",
                    "0.13 and later",
                    {f"lmdeploy/pytorch/backends/{backend}/rejection_sampling.py": named},
                    ("lmdeploy", "RejectionSampling", backend),
                    cases=("generic.v2.l2", "zeros.both") if backend == "cuda" else ("!wide.*",),
                    why=_SLOW if backend == "cuda" else "wide rows are slow",
                    note=f"{_BONUS} {_WARM}",
                )
                for backend, named in {
                    "default": "class DefaultRejectionSamplingImpl",
                    "cuda": "class CudaRejectionSamplingImpl",
                }.items()
            },
        ),
        EnginePackage(
            "transformers",
            "transformers",
            "transformers",
            "torch",
            {
                "token": EngineMethod(
                    "token",
                    "4.52 and later",
                    {"transformers/generation/utils.py": "def _speculative_sampling("},
                    ("transformers", "SpeculativeSampling", None),
                ),
            },
        ),
        EnginePackage(
            "tpu-inference",
            "tpu-inference",
            "tpu_inference",
            "torch,engines",
            {
                "token": EngineMethod(
                    "token",
                    "0.11 and later",
                    {
                        "tpu_inference/layers/jax/sample/rejection_sampler.py": (
                            "def rejection_sample("
                        )
                    },
                    ("tpu_inference", "TpuRejectionSample"),
                    cases=("generic.v2.l2", "zeros.both"),
                    why="it is traced for every shape, which is slow",
                    note=(
                        "Its random numbers are torch's, not its own generator's; the bonus is "
                        f"torch's draw. {_WARM}"
                    ),
                ),
            },
        ),
        EnginePackage(
            "mlx-lm",
            "MLX LM",
            "mlx_lm",
            "torch,engines",
            {
                "agreement": EngineMethod(
                    "target_first",
                    "0.32 and later",
                    {"mlx_lm/generate.py": "def speculative_generate_step("},
                    ("mlx_lm", "SpeculativeGenerateStep"),
                    cases=("generic.v2.l2",),
                    why="it takes one request at a time",
                    note=(
                        "Its sampler, its caller's to choose, is torch's draw; its draft model "
                        "says the request's drafts."
                    ),
                ),
            },
        ),
        EnginePackage(
            "ipex-llm",
            "IPEX-LLM",
            "ipex_llm",
            "torch,engines",
            {
                "token": EngineMethod(
                    "token",
                    "2.3.0b20251110",
                    {"ipex_llm/transformers/speculative.py": "def speculative_generate("},
                    ("ipex_llm", "SpeculativeGenerate"),
                ),
            },
        ),
        EnginePackage(
            "dflash",
            "DFlash",
            "dflash",
            "torch",
            {
                rows: EngineMethod(
                    "token",
                    "0.1.0",
                    {"dflash/model.py": "def _rejection_sample("},
                    ("dflash", "RejectionSample", rows),
                )
                for rows in ("rows", "candidates")
            },
        ),
        EnginePackage(
            "angelslim",
            "AngelSlim",
            "angelslim",
            "torch,engines",
            {
                "tree": EngineMethod(
                    "target_first",
                    "0.5.0",
                    {
                        "angelslim/compressor/speculative/utils/util.py": "def evaluate_posterior(",
                    },
                    ("angelslim", "AngelSlimEvaluatePosterior"),
                ),
            },
        ),
        EnginePackage(
            "eagle-llm",
            "EAGLE",
            "eagle",
            "torch,engines",
            {
                rule: EngineMethod(
                    "recursive_rejection",
                    "1.2.1",
                    {f"eagle/{member}.py": "def evaluate_posterior("},
                    ("eagle_llm", "EaEvaluatePosterior", rule),
                )
                for rule, member in (
                    ("tree", "model/utils"),
                    ("batched", "modelbsne1/utils"),
                )
            },
        ),
        EnginePackage(
            "specforge",
            "SpecForge",
            "specforge",
            "torch",
            {
                "agreement": EngineMethod(
                    "target_first",
                    "0.2.0",
                    {"specforge/modeling/draft/dflash.py": "def spec_generate("},
                    ("specforge", "SpecGenerate"),
                ),
            },
        ),
        EnginePackage(
            "aphrodite-engine",
            "Aphrodite",
            "aphrodite",
            "torch,triton",
            {
                "v0": EngineMethod(
                    "token",
                    "0.6",
                    {f"{_APHRODITE_V0}/rejection_sampler.py": "class RejectionSampler"},
                    ("aphrodite", "AphroditeRejectionSampler"),
                    cases=("!wide.*",),
                    why="cases of wide, mostly masked rows take minutes and gigabytes",
                    note=_BONUS,
                ),
                "v0-typical": EngineMethod(
                    "token",
                    "0.6",
                    {
                        f"{_APHRODITE_V0}/typical_acceptance_sampler.py": (
                            "class TypicalAcceptanceSampler"
                        )
                    },
                    ("aphrodite", "AphroditeTypicalAcceptanceSampler"),
                    note=_BONUS,
                ),
                "v1": EngineMethod(
                    "token",
                    "0.10 and later",
                    {"aphrodite/v1/sample/rejection_sampler.py": "def rejection_sample("},
                    ("aphrodite", "AphroditeV1"),
                    mode="standard",
                    cases=_FEW,
                    why=_SLOW,
                    note=_WARM,
                ),
            },
        ),
        EnginePackage(
            "vllm-mlx",
            "vllm-mlx",
            "vllm_mlx",
            "torch,engines",
            {
                company: EngineMethod(
                    "token",
                    "0.6 and later",
                    {"vllm_mlx/mllm_batch_generator.py": "def _accept_sampled_draft("},
                    ("vllm_mlx", "MultimodalStep", company),
                    cases=("generic.v2.l1",),
                    why="it drafts one token at a time, and no such case shows a wrong residual",
                    note=_MTP,
                )
                for company in ("alone", "beside")
            },
        ),
        EnginePackage(
            "exllamav2",
            "ExLlamaV2",
            "exllamav2",
            "torch",
            {
                generator: EngineMethod(
                    "target_first",
                    "0.3",
                    {f"exllamav2/generator/{generator}.py": text},
                    ("exllamav2", generator.capitalize()),
                    cases=("!wide.*",),
                    why="wide rows are slow",
                    note=_AGREED,
                )
                for generator, text in (
                    ("streaming", "def _gen_single_token_speculative("),
                    ("dynamic", "def iterate_draftmodel_gen("),
                )
            },
        ),
        EnginePackage(
            "exllamav3",
            "ExLlamaV3",
            "exllamav3",
            "torch",
            {
                "agreement": EngineMethod(
                    "target_first",
                    "1.6",
                    {"exllamav3/generator/generator.py": "def iterate_draftmodel_gen("},
                    ("exllamav3", "IterateGen"),
                    cases=("!wide.*",),
                    why="wide rows are slow",
                    note=_AGREED,
                ),
            },
        ),
        EnginePackage(
            "mlx-vlm",
            "MLX-VLM",
            "mlx_vlm",
            "torch,engines",
            {
                drafter: EngineMethod(
                    "target_first",
                    "0.7 and later",
                    {f"mlx_vlm/speculative/{drafter}.py": text},
                    ("mlx_vlm", "SampledWalk", drafter),
                    cases=("generic.v2.l2",),
                    why="it takes one request at a time",
                    note="Its sampler, its caller's to choose, is torch's draw.",
                )
                for drafter, text in (
                    ("dflash", "def _sample_dflash_target_walk("),
                    ("mtp", "def _mtp_acceptance_walk("),
                )
            },
        ),
        EnginePackage(
            "nemo-automodel",
            "NeMo AutoModel",
            "nemo_automodel",
            "torch",
            {
                "msd": EngineMethod(
                    "token",
                    "0.6 and later",
                    {f"{_NEMO}/eagle/msd_decode.py": "def verify_stochastic_chain("},
                    ("nemo_automodel", "MSDStochasticChain"),
                ),
                "dflash2": EngineMethod(
                    "token",
                    "0.7 and later",
                    {f"{_NEMO}/dflash/draft_qwen3_dflash2.py": "def dflash2_rejection_sample("},
                    ("nemo_automodel", "DFlash2RejectionSample"),
                    note="All tokens are the selector's candidates.",
                ),
                "dflash": EngineMethod(
                    "target_first",
                    "0.5 and later",
                    {f"{_NEMO}/dflash/draft_qwen3.py": "def spec_generate("},
                    ("nemo_automodel", "DFlashSpecGenerate"),
                    note="Its models, and transformers' cache, are doubles.",
                ),
            },
        ),
        EnginePackage(
            "vllm-rbln",
            "vLLM RBLN",
            "vllm_rbln",
            "torch,triton",
            {
                "token": EngineMethod(
                    "token",
                    "0.12 and later",
                    {_RBLN: "def torch_rejection_sample("},
                    ("vllm_rbln", "TorchRejectionSample"),
                    note=f"Functions of vLLM 0.33 stand for those of its own vLLM. {_WARM}",
                ),
            },
        ),
        EnginePackage(
            "megatron-core",
            "Megatron Core",
            "megatron",
            "torch,triton",
            {
                "agreement": EngineMethod(
                    "target_first",
                    "0.19 and later",
                    {_MEGATRON: "def _dynamic_step_sample_logits_and_verify_tokens("},
                    ("megatron_core", "SampleAndVerify"),
                    cases=("generic.v2.l2", "generic.v3.l2"),
                    why=_SLOW,
                    note="Its model and its context are doubles; it samples in torch.",
                ),
            },
        ),
        EnginePackage(
            "text-generation-inference",
            "Text Generation Inference",
            "text_generation_server",
            "torch",
            {
                "agreement": EngineMethod(
                    "target_first",
                    "the last checkout, by --source of its folder server: no index has it",
                    {
                        "text_generation_server/utils/tokens.py": (
                            "class HeterogeneousNextTokenChooser"
                        )
                    },
                    ("tgi", "NextTokenChooser"),
                    note="Its generators are the request's one.",
                ),
            },
        ),
    )
}

_NAME = re.compile(
    r"(?P<engine>[\w-]+)/(?P<method>[\w-]+)(?:==(?P<version>[\w.+!]+)|@(?P<source>.+))?"
)


def made(name: str) -> Any:
    """Make the adapter of a name such as "vllm/v1@PATH".

    Raises `AttributeError` for no such name, `Unavailable` if the release cannot be had, has no
    such method, or has moved on.
    """
    told = _NAME.fullmatch(name)
    package = PACKAGES.get(told["engine"]) if told else None
    if told is None or package is None or told["method"] not in package.methods:
        raise AttributeError(f"there is no engine {name!r}")
    method = package.methods[told["method"]]
    if told["version"]:
        release = of_index(package.name, told["version"], package.package)
    else:
        release = package.found(told["source"] or "")
    called = f"{package.name} {release.version}"
    own = f"{package.name}:{told['method']}"
    if not method.is_in(release):
        raise Unavailable(f"{called} has no {told['method']}: {method.lack(release)}")
    try:
        return method.adapter(release)
    except MovedOn as error:
        raise MovedOn(f"{called}: {error}. {own} judges {method.versions}") from error
    except AttributeError as error:
        # For who loads an adapter, this error says that there is no adapter of this name.
        raise MovedOn(
            f"{called}: {error}, which this adapter uses. {own} judges {method.versions}"
        ) from error
