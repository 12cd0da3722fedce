"""Our own batched verifiers, and the model of how to write one.

Each is an adapter and an attribute of this package, such as `torch_block` or `triton_block`.
`verify` is the call that an engine makes. Here are two requests, with one and two drafted tokens;
the target gives the last of them no probability:

    >>> import torch
    >>> from draftproof.adapters.fast import verify
    >>> target = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [0.5, 0.5]])
    >>> verified = verify(
    ...     "token",
    ...     draft_token_ids=torch.tensor([0, 1, 1]),
    ...     cu_num_draft_tokens=torch.tensor([1, 3]),
    ...     max_spec_len=2,
    ...     target_probs=target,
    ...     draft_probs=torch.full((3, 2), 0.5),
    ... )
    >>> verified.accepted
    tensor([1, 1])
"""

from __future__ import annotations

from draftproof.adapters.fast.engine import verify
from draftproof.adapters.fast.texts import FORMS, KERNELS, TEXTS
from draftproof.adapters.fast.verifier import FastVerifier

__all__ = ["FORMS", "KERNELS", "TEXTS", "FastVerifier", "verify"]


def __dir__() -> list[str]:
    names = (f"{form}_{name}" for name, text in TEXTS.items() for form in text.forms)
    return sorted({*globals(), *names})


def __getattr__(name: str) -> FastVerifier:
    """Make the adapter that is called FORM_NAME."""
    form, _, text = name.partition("_")
    if text in TEXTS and form in TEXTS[text].forms:
        return FastVerifier(text, form=form)
    raise AttributeError(f"there is no fast verifier {name!r}")
