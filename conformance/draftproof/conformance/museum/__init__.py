"""Verifiers that are wrong on purpose, what catches them, and test vectors."""
