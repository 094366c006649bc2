"""Reads the file of a contract into its model."""
