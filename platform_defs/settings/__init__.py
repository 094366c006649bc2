"""This process: TIDEGATE_* settings, its contracts, user, home folder, and TLS of addresses."""
