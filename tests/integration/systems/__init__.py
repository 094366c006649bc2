"""Tests of commands, the embedded stack, poolers, TLS, rights, and leaks."""
