"""A campaign in one call, where tests that `draftproof init` wrote import it from."""

from draftproof.conformance.run.campaign import certify

__all__ = ["certify"]
