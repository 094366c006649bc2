"""verify: clean where all is right, and exact where it is not."""
