"""Growth with each batch, over weeks of a trickle, and its bounds by the nightly prune."""
