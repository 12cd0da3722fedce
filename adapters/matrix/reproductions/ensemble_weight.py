"""transformers: assisted generation with an ensemble weight, against the documented mixture.

    python ensemble_weight.py [WEIGHT...]

verifies 20,000 drafted tokens with each weight, by the function that assisted generation calls. A
weight mixes the draft's distribution into the target's, as it is documented to do, so the output
has the mixture's distribution; without a weight it has the target's. Needs transformers and torch.
What it shows is no fault: it ends with 0, and with 1 if the output has neither distribution.
"""

import math
import sys

import torch
from transformers.generation.utils import _speculative_sampling

TIMES = 20_000

TARGET = torch.tensor([[1 / 2, 1 / 2], [1 / 2, 1 / 2]])
DRAFT = torch.tensor([[9 / 10, 1 / 10]])


def deviation(weight: float | None) -> float:
    """Return how far the first token is from the mixture, in standard errors; print it."""
    options = {} if weight is None else {"assistant_ensemble_weight": weight}
    zeros = 0
    for _ in range(TIMES):
        drafted = torch.multinomial(DRAFT, 1)
        tokens, _ = _speculative_sampling(
            drafted, DRAFT.log()[None], 1, TARGET.log()[None], **options
        )
        zeros += int(tokens[0, 0] == 0)
    share = 1 if weight is None else weight
    target = TARGET[0, 0].item()
    seen, mixed = zeros / TIMES, share * target + (1 - share) * DRAFT[0, 0].item()
    away = (seen - mixed) / math.sqrt(mixed * (1 - mixed) / TIMES)
    print(
        f"weight {weight}: token 0 first {seen:.4f}, the target says {target:.4f}, "
        f"the mixture {mixed:.4f}: {away:+.1f} sigma"
    )
    return abs(away)


def main() -> int:
    torch.manual_seed(0)
    weights = [float(each) for each in sys.argv[1:]] or [0.25, 0.5, 0.75]
    return int(max(map(deviation, [None, *weights])) > 6)


if __name__ == "__main__":
    sys.exit(main())
