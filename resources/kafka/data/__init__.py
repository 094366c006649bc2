"""Reading and writing single messages for a person: outside of any batch."""
