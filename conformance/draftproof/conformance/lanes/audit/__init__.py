"""Evidence from a log of what a server wrote, for engines whose model cannot be exchanged."""
