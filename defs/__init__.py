"""Assets, checks and components of your own in this code location: `dg scaffold defs dagster.asset name.py`."""
