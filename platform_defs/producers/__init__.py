"""Messages written to topics: `Producer`, its transactions, topics that Dagster writes, `tidegate presets`."""
