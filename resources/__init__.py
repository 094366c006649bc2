"""The systems outside Tidegate: a folder for each, and the settings with their addresses.

The engine uses them through the protocols in platform_defs/engine/ports/run_ports.py.
"""
