"""What the engine needs of other systems, as protocols; resources implements them."""
