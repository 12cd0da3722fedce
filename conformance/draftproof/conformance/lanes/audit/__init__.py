"""Audit lane: evidence from a log of a server, for engines whose model cannot be replaced."""
