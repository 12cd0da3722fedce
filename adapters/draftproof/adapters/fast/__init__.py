"""Our own batched verifiers, and the model of how to write one.

Each is an adapter and an attribute of this package, such as `torch_block` or `triton_block`.
`verify` is the call that an engine makes.
"""

from __future__ import annotations

from draftproof.adapters.fast.engine import verify
from draftproof.adapters.fast.texts import FORMS, TEXTS
from draftproof.adapters.fast.verifier import FastVerifier

__all__ = ["FORMS", "TEXTS", "FastVerifier", "verify"]


def __getattr__(name: str) -> FastVerifier:
    """Make the adapter that is called FORM_NAME."""
    form, _, text = name.partition("_")
    if form in FORMS and text in TEXTS:
        return FastVerifier(text, form=form)
    raise AttributeError(f"there is no fast verifier {name!r}")
