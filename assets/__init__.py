"""The domains: a folder each, with `<name>.odcs.yaml` for each pipeline and, if wanted, `<name>.py` beside it.

No code of Tidegate's is here: platform_defs/settings/contracts.py finds and reads them.
"""
