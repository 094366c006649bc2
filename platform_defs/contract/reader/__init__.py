"""From the file of a contract to its model."""
