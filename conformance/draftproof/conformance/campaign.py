"""A campaign in one call, under the name from which the tests of `draftproof init` import it."""

from draftproof.conformance.run.certify import certify

__all__ = ["certify"]
