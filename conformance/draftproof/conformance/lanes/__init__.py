"""Ways to observe the law of an implementation, from strongest to weakest."""
