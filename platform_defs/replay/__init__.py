"""`tidegate replay`: tables rebuilt from the log beside the live ones, compared, and swapped in."""
