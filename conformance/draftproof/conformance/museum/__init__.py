"""Museum of deliberately wrong verifiers, the kill matrix of their faults, and test vectors."""
