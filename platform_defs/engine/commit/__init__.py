"""The checks that decide whether a batch is published, and the steps of its transaction."""
