"""`tidegate presets measure`: real faults on three real brokers, and what each preset makes of them."""
