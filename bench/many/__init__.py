"""Many pipelines at once on the embedded stack, by the real sensors and runs: `python -m bench.many`."""
