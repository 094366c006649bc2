"""Comparison, check and application of changed contracts; registration and import of schemas."""
