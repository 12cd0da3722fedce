"""Evidence: the records of a campaign, and the certificate that follows from them."""
