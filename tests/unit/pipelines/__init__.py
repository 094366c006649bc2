"""Assets, sensors, schedules, turns and checks."""
