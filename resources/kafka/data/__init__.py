"""Reading and writing single messages for a user: outside of any batch."""
