"""Who is judged: our own fast verifiers, and thin adapters to the engines of the world."""
