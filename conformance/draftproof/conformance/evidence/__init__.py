"""Evidence: what a campaign keeps, and the certificate that follows from it."""
