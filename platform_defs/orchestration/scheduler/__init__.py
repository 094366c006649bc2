"""Which pipelines are due, and the turns that they get in a run."""
