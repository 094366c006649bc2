"""The outside world: a folder for each system that Tidegate talks to, and the settings that say where they are.

The engine sees them through the protocols in platform_defs/engine/ports/run_ports.py.
"""
