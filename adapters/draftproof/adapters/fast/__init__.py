"""Our own batched verifiers, and the model of how to write one."""
