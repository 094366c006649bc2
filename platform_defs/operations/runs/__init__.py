"""Runs, replays, adoptions, splits and prunes of a pipeline."""
