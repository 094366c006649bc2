"""`tidegate replay`: tables rebuilt from the log next to the live ones, compared, and swapped in."""
