"""Tables against the topic: appends, upserts, accumulates and dead letters."""
