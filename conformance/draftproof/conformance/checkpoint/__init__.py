"""Checkpoints with a known distribution, to judge a whole engine by its output."""
