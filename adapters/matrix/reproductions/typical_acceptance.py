"""Typical acceptance, which is lossy by design: how far its law is from the target's.

    python typical_acceptance.py

fetches the wheels of vLLM 0.5.5 and medusa-llm 0.1 (the former is large), imports the files that
verify alone, and verifies one drafted token with the thresholds that are their defaults. Both
rules are deterministic once a token is drafted, so that the law of the text is found by drafting
each. Needs torch and pip. What it shows is no fault: it ends with 0, and with 1 if what it finds
is not what is printed as expected any more.

The controls: vLLM's rejection sampler, of the same wheel, asked 400,000 times, and Medusa at
temperature 0, which is greedy decoding and has to write the target's most probable token.
"""

import importlib.util
import math
import subprocess
import sys
import zipfile
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from unittest.mock import MagicMock

import torch

VLLM = ("vllm", "0.5.5", "64fb5b8a3300af3006a3b9ba4eacdf5f4bd2a85887a695e6587684447c49eb8e")
MEDUSA = ("medusa-llm", "0.1", "e4a0f04dcc1cac018a103d32891dccf7055c92147e87ae051f92c34030da1ab3")
LAYERS = "vllm.model_executor.layers"
THRESHOLDS = {"posterior_threshold": 0.09, "posterior_alpha": 0.3}
VERIFIED = 400_000

# The target's row, the draft's row, and the laws that are expected of vLLM and of Medusa, whose
# heads draft the most probable token of the draft's row and nothing else.
CASES = (
    (("3/4", "1/4"), ("1/2", "1/2"), ("1/2", "1/2"), None),
    (("7/8", "1/8"), ("0", "1"), ("0", "1"), ("0", "1")),
    (("15/16", "1/16"), ("1/2", "1/2"), ("1", "0"), None),
    (("15/16", "1/16"), ("0", "1"), ("1", "0"), ("1", "0")),
)


def imported(wheel: tuple[str, str, str], *modules: str) -> list[ModuleType]:
    """Return modules of a wheel; what they import of it beyond each other is a mock."""
    project, version, digest = wheel
    with TemporaryDirectory() as folder:
        listed = Path(folder) / "requirements.txt"
        listed.write_text(f"{project}=={version} --hash=sha256:{digest}\n")
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "-q", "--no-deps"),
                *("--only-binary=:all:", "--platform=manylinux1_x86_64", "--platform=any"),
                *("-d", folder, "-r", str(listed)),
            ],
            check=True,
        )
        archive = zipfile.ZipFile(next(Path(folder).glob("*.whl")))
        found = []
        for name in modules:
            file = archive.extract(f"{name.replace('.', '/')}.py", folder)
            spec = importlib.util.spec_from_file_location(name, file)
            module = importlib.util.module_from_spec(spec)
            for depth in range(1, name.count(".") + 1):
                package = ".".join(name.split(".")[:depth])
                sys.modules.setdefault(package, MagicMock(__path__=[]))
            sys.modules[name] = module
            spec.loader.exec_module(module)
            found.append(module)
        return found


def row(numbers: tuple[str, ...]) -> torch.Tensor:
    return torch.tensor([float(Fraction(each)) for each in numbers])


def shown(law: tuple[Fraction, ...], target: tuple[str, ...], how: str, expected: object) -> bool:
    """Print a law beside the target's, and return whether it is what is expected."""
    distance = sum(abs(a - Fraction(b)) for a, b in zip(law, target, strict=True)) / 2
    print(
        f"  {how}: ({', '.join(map(str, law))}), the target's ({', '.join(target)}): "
        f"total variation distance {distance}"
    )
    return expected is None or tuple(map(Fraction, expected)) == law


def of_vllm(
    sampler: object, target: tuple[str, ...], draft: tuple[str, ...]
) -> tuple[Fraction, ...]:
    """Return the law of the first token that vLLM's sampler emits."""
    law = [Fraction(0)] * len(target)
    for drafted, chance in enumerate(draft):
        emitted = sampler(
            row(target)[None, None],
            torch.zeros(1, 1, dtype=torch.int64),
            row(draft)[None, None],
            torch.tensor([[drafted]]),
        )
        law[emitted[0, 0]] += Fraction(chance)
    return tuple(law)


def of_medusa(
    medusa: ModuleType, target: tuple[str, ...], drafted: int, temperature: float
) -> tuple[Fraction, ...]:
    """Return the law of the token that follows Medusa's first: it is certain."""
    logits = row(target).log().expand(1, 2, -1)
    candidates = torch.tensor([[0, drafted]])
    best, accepted = medusa.evaluate_posterior(logits, candidates, temperature, **THRESHOLDS)
    if accepted:
        token = candidates[best, 1].item()
    else:
        following, _ = medusa.generate_candidates(
            logits[:0], logits[:, :1], [], torch.zeros(1, dtype=torch.int64), temperature
        )
        token = following.item()
    return tuple(Fraction(each == token) for each in range(len(target)))


def main() -> int:
    _, exact, typical = imported(
        VLLM,
        f"{LAYERS}.spec_decode_base_sampler",
        f"{LAYERS}.rejection_sampler",
        f"{LAYERS}.typical_acceptance_sampler",
    )
    (medusa,) = imported(MEDUSA, "medusa.model.utils")
    sampler = typical.TypicalAcceptanceSampler(**THRESHOLDS)
    lossless = exact.RejectionSampler()
    for each in (sampler, lossless):
        each.init_gpu_tensors("cpu")
    is_expected = True
    torch.manual_seed(0)
    for target, draft, by_vllm, by_medusa in CASES:
        print(f"the target's row ({', '.join(target)}), the draft's ({', '.join(draft)})")
        law = of_vllm(sampler, target, draft)
        is_expected &= shown(law, target, "vLLM 0.5.5, typical acceptance", by_vllm)
        rows = row(target).expand(VERIFIED, 1, -1), row(draft).expand(VERIFIED, 1, -1)
        drafted = torch.multinomial(rows[1][:, 0], 1)
        emitted = lossless(rows[0], torch.zeros_like(drafted), rows[1], drafted)[:, 0]
        seen = (emitted == 0).double().mean().item()
        owed = float(Fraction(target[0]))
        sigma = (seen - owed) / math.sqrt(owed * (1 - owed) / VERIFIED)
        print(
            f"  vLLM 0.5.5, rejection sampler: token 0 {seen:.4f}, "
            f"the target's {owed:.4f}: {sigma:+.1f} sigma"
        )
        is_expected &= abs(sigma) < 6
        if by_medusa:
            token = int(row(draft).argmax())
            law = of_medusa(medusa, target, token, 1.0)
            is_expected &= shown(law, target, "Medusa 0.1, temperature 1", by_medusa)
            greedy = of_medusa(medusa, target, token, 0.0)
            print(f"  Medusa 0.1, temperature 0: ({', '.join(map(str, greedy))}), must be (1, 0)")
            is_expected &= greedy == (1, 0)
    return int(not is_expected)


if __name__ == "__main__":
    sys.exit(main())
