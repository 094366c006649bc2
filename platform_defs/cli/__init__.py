"""The command line: `main.py` finds each command in its feature's folder; the rest is what commands share."""
