"""verify: its reading, validation and comparison."""
