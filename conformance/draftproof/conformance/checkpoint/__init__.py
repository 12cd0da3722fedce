"""Checkpoints that say a known distribution, so that a whole engine can be judged by its output."""
