"""Thin adapters to implementations that ship elsewhere, unmodified and imported lazily."""
