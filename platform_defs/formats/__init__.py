"""From a message's bytes to Arrow rows, or to a reason."""
