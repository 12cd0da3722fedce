"""A campaign: what is judged, in which order, by which processes."""
