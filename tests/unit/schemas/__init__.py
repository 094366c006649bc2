"""Schemas made of contracts and back, and messages made up from either."""
