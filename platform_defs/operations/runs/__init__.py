"""A pipeline is run, replayed, adopted, split and pruned."""
