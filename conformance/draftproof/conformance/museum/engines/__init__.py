"""Museum of engines: a small correct engine, and engines with one wrong step each."""
