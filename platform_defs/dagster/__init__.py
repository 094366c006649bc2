"""What everything in Dagster shares: names of assets, runs, the instance's storage, a run's session."""
