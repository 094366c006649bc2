"""One message against its contract, in plain Python, and blocks of them."""
