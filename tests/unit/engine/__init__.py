"""Planning, decoding, limits and error classes of a batch."""
