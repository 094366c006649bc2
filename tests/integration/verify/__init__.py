"""Tests of verify: clean if all is right, and exact if it is not."""
