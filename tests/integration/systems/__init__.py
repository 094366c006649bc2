"""Commands, the embedded stack, poolers, TLS, rights, and what must not leak."""
