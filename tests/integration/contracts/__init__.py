"""Contracts that change, and what becomes of tables."""
