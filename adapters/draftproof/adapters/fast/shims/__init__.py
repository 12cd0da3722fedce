"""The verifiers under the signatures that engines have: their tensors in, their outputs out.

An engine that calls `rejection_sample` changes an import, and nothing else. What an engine offers
that does not keep the target's law, or is not verification, is refused by name: `NotOurs`.
"""

from __future__ import annotations

__all__ = ["NotOurs"]


class NotOurs(ValueError):
    """An engine's option that these verifiers do not have; the message says which, and why."""
