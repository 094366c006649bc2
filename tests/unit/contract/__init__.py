"""Contracts: files, keys, names and values."""
