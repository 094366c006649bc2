"""`tidegate doctor`: checks every system at the same time, and passes the facts to platform_defs/doctor/."""
