"""`tidegate presets measure`: each preset's results under real faults on three real brokers."""
