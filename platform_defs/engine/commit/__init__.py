"""Whether a batch is published, the transaction that publishes it, and its statements."""
