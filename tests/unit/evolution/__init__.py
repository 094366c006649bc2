"""From one contract to the next, and the gate."""
