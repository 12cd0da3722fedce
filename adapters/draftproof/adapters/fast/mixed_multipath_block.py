"""Mixed multi-path block verification: sometimes the highest-ranked path, sometimes any."""

from __future__ import annotations

from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.mixture import verified
from draftproof.conformance.adapter import Result


def mixed_multipath_block(batch: Batch, noise: Tensor) -> Result:
    """Go down to the highest-ranked sibling with a chosen probability, else to any; as a block.

    `noise` [B, 2L+1]: for each position a number that selects the path, and the coin of the prefix
    that it ends; and the mark of the next token. The probability is `mixture.most_kept`. Ours.
    """
    return verified(batch, noise[:, 1:-1:2], noise[:, -1], noise[:, 0:-1:2])
