"""A failure, made small and told."""
