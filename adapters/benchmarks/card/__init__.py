"""The first thirty minutes on a GPU, in steps: what `benchmarks.gpu` runs, one after another."""
