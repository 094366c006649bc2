"""Peers that carry the same topic into the same database: `python -m bench.peers`.

No import here: some modules run in a peer's own environment, without the project's packages.
"""
