"""`tidegate contract`: what a changed contract does to its tables, the change itself, and CI's gate."""
