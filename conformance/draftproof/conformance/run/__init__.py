"""Campaigns: the order of judging, and the processes that do it."""
