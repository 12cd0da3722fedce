"""How it is judged."""
