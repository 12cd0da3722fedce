"""Counterexamples: failures made small, and explained in words and scripts."""
