"""What is outside: each system that Tidegate talks to has a folder here, beside the settings and where the systems are.

The engine knows of them by platform_defs/engine/ports.py.
"""
