"""Others that carry the same topic into the same database: `python -m bench.peers`.

No import here: some modules run in an environment of a peer's own, without the project's packages.
"""
