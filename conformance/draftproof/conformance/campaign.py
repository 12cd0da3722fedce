"""A campaign in one call, where tests that `draftproof init` wrote import it from."""

from draftproof.conformance.run.certify import certify

__all__ = ["certify"]
