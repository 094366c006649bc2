"""`tidegate doctor`: looks at every system at the same time, and hands what it saw to platform_defs/doctor/."""
