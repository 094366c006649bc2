"""Schemas made from contracts and back, and messages made up from either."""
