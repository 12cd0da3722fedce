"""transformers: assisted generation with an ensemble weight, against the target's own law.

    python ensemble_weight.py [WEIGHT...]

verifies 20,000 drafted tokens with each weight, by the function that assisted generation calls. A
weight mixes the draft's law into the target's, so what is emitted has another law: that is what it
is for. Without a weight the target's law comes out. Needs transformers and torch; ends with 1
while a weight moves the law.
"""

import math
import sys

import torch
from transformers.generation.utils import _speculative_sampling

TIMES = 20_000

TARGET = torch.tensor([[1 / 2, 1 / 2], [1 / 2, 1 / 2]])
DRAFT = torch.tensor([[9 / 10, 1 / 10]])


def deviation(weight: float | None) -> float:
    """Return how far the first token's law is from the target's, in standard errors; print it."""
    options = {} if weight is None else {"assistant_ensemble_weight": weight}
    zeros = 0
    for _ in range(TIMES):
        drafted = torch.multinomial(DRAFT, 1)
        tokens, _ = _speculative_sampling(
            drafted, DRAFT.log()[None], 1, TARGET.log()[None], **options
        )
        zeros += int(tokens[0, 0] == 0)
    seen, owed = zeros / TIMES, TARGET[0, 0].item()
    away = (seen - owed) / math.sqrt(owed * (1 - owed) / TIMES)
    print(f"weight {weight}: token 0 first {seen:.4f}, must be {owed:.4f}: {away:+.1f} sigma")
    return abs(away)


def main() -> int:
    torch.manual_seed(0)
    deviation(None)
    weights = [float(each) for each in sys.argv[1:]] or [0.25, 0.5, 0.75]
    return int(max(map(deviation, weights)) > 6)


if __name__ == "__main__":
    sys.exit(main())
