"""Topics in Dagster: assets, checks, and the sensor that observes them."""
