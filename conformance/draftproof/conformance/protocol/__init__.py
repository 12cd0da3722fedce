"""The protocol: what an adapter is asked and answers, and how it is loaded."""
