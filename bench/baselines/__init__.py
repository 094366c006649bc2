"""The baselines: loops written by hand, the machine itself, and us without guarantees."""
