"""Presets and options of a producer, and the promises they keep. Pure; below the contract."""
