"""Engine lane: the output of a whole engine, judged as a Markov chain with known rows."""
