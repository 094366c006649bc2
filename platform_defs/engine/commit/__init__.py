"""The decision to publish a batch, the transaction that publishes it, and its statements."""
