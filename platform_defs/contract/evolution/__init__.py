"""From one contract to the next: changes, their classes, and the statements for the tables. Pure."""
