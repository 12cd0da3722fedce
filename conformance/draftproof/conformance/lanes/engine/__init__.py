"""The engine lane: what a whole engine writes, judged as a Markov chain with known rows."""
