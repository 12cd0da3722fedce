"""vllm-mlx: the drafts of two requests, verified in one step as released and as fixed, exactly.

    python vllm_mlx_batch.py

fetches the wheel of vllm-mlx 0.6.0, imports its batch generator alone, and installs its multi-token
head on a generator and a model that are stand-ins: the model says the rows, and the head drafts the
token of which it is certain. Every way in which the coins may fall is tried, and the distribution
of the token behind the prompt is added up. Nothing is sampled. The fix is run as a control. Needs
mlx, mlx-lm and pip; ends with 1 if a distribution of the release is wrong.
"""

import itertools
import subprocess
import sys
import tempfile
import zipfile
from fractions import Fraction
from pathlib import Path
from types import ModuleType, SimpleNamespace

import mlx.core as mx
from mlx_lm.sample_utils import make_sampler

RELEASE, FILE = "vllm-mlx==0.6.0", "vllm_mlx/mllm_batch_generator.py"
FIXES = {
    "                    if not accepted and batch_size == 1:\n": """\
                    if accepted:
                        residual_tokens_by_uid[uid] = draft_token
                        residual_logprobs_by_uid[uid] = verify_distribution[row]
                    else:
""",
    '"from_draft": False,': '"from_draft": residual_tokens_by_uid[uid] == draft_list[row],',
}
TARGET, DRAFT = (0.5, 0.5), (1.0, 0.0)
# The target keeps the drafted token with 1/2: the first coin accepts, the second refuses.
COINS = (0.25, 0.75)


def imported(folder: Path, *, fixed: bool) -> ModuleType:
    """Return the module of the wheel, with what it needs of the package as stand-ins."""
    source = (folder / FILE).read_text()
    if fixed:
        for old, new in FIXES.items():
            assert source.count(old) == 1
            source = source.replace(old, new)
    sys.modules["vllm_mlx"] = ModuleType("vllm_mlx")
    sys.modules["vllm_mlx"].__path__ = []
    for name in ("memory_cache", "multimodal_processor", "mllm_specprefill", "scheduler"):
        sys.modules[f"vllm_mlx.{name}"] = Anything(f"vllm_mlx.{name}")
    sys.modules["vllm_mlx.vision_embedding_cache"] = Anything("vllm_mlx.vision_embedding_cache")
    sys.modules["vllm_mlx.scheduler"].make_sampler = make_sampler
    module = ModuleType("vllm_mlx.mllm_batch_generator")
    module.__package__ = "vllm_mlx"
    sys.modules[module.__name__] = module
    exec(compile(source, FILE, "exec"), vars(module))
    return module


class Anything(ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return object


class Model:
    """A model whose rows are the same after every text."""

    def __call__(self, tokens: mx.array, **_: object) -> tuple[mx.array, mx.array]:
        count, length = tokens.shape
        rows = mx.broadcast_to(mx.log(mx.array(TARGET)), (count, length, 2))
        return rows, mx.zeros((count, length, 1))

    def mtp_forward(self, hidden: mx.array, *_: object, **__: object) -> mx.array:
        return mx.broadcast_to(mx.log(mx.array(DRAFT)), (hidden.shape[0], 1, 2))


class Generator(SimpleNamespace):
    """A batch generator of requests at temperature 1 that have just written their first token."""

    def __init__(self, count: int) -> None:
        requests = [SimpleNamespace(temperature=1.0, output_tokens=[]) for _ in range(count)]
        batch = SimpleNamespace(
            uids=[*range(count)], requests=requests, num_tokens=[0] * count, max_tokens=[9] * count
        )
        super().__init__(active_batch=batch, stop_tokens=(), rows=[])

    def sampler(self, logprobs: mx.array) -> mx.array:
        """Keep the row that it is given, and say token 0."""
        self.rows.append(mx.exp(logprobs)[0].tolist())
        return mx.zeros(logprobs.shape[0], mx.int32)

    def step(self) -> None:
        count = len(self.active_batch.uids)
        self.y, _ = self._step(mx.zeros((count, 1), mx.int32), [])

    def _step(self, *_: object, **__: object) -> object:
        raise AssertionError("it does without its drafts")

    def _next(self) -> list[SimpleNamespace]:
        given = self.y.tolist()
        self.step()
        none = {"finish_reason": None, "request_id": "", "prompt_tokens": 0}
        none |= {"specprefill_outcome": None}
        return [SimpleNamespace(uid=uid, token=token, **none) for uid, token in enumerate(given)]


class Coins:
    """MLX's random numbers, of which the uniform ones are given."""

    def __init__(self, coins: tuple[float, ...]) -> None:
        self._coins = coins

    def __getattr__(self, name: str) -> object:
        return getattr(mx.random, name)

    def uniform(self, **_: object) -> mx.array:
        return mx.array(self._coins)


def law(module: ModuleType, count: int) -> list[Fraction]:
    """Return the distribution of the first request's second token, with `count` requests."""
    found = [Fraction(0)] * 2
    for coins in itertools.product(COINS, repeat=count):
        names = {name: getattr(mx, name) for name in dir(mx) if not name.startswith("__")}
        module.mx = SimpleNamespace(**{**names, "random": Coins(coins)})
        generator = Generator(count)
        module.install_mtp_mllm(generator, Model())
        generator.step()
        emitted = [each.token for each in generator._next() if each.uid == 0][1:]
        assert generator.get_mtp_stats()["errors"] == 0
        # What is not emitted yet is drawn from the row that the next step has given its sampler.
        row = [float(token == emitted[0]) for token in range(2)] if emitted else generator.rows[1]
        for token, chance in enumerate(row):
            found[token] += Fraction(chance).limit_denominator(1000) / len(COINS) ** count
    return found


def main() -> int:
    owed, worst = [Fraction(each) for each in TARGET], Fraction(0)
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", made, RELEASE],
            check=True,
        )
        folder = Path(made)
        zipfile.ZipFile(next(folder.glob("*.whl"))).extract(FILE, folder)
        for fixed in (False, True):
            module = imported(folder, fixed=fixed)
            for count in (1, 2, 3):
                found = law(module, count)
                off = sum((abs(a - b) for a, b in zip(found, owed, strict=True)), Fraction(0)) / 2
                print(
                    f"{RELEASE}, {'fixed' if fixed else 'as released'}, requests {count}: "
                    f"({', '.join(map(str, found))}), must be ({', '.join(map(str, owed))}): "
                    f"total variation distance {off}"
                )
                worst = max(worst, off if not fixed else 0)
    return int(worst > 0)


if __name__ == "__main__":
    sys.exit(main())
