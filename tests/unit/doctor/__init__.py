"""The doctor's conclusions."""
