"""Messages to rows: framing, keys, arrays and writers."""
