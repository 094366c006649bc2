"""What grows with each batch, over weeks of a trickle, and what the nightly prune keeps in bounds."""
