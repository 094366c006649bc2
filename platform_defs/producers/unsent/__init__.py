"""Messages that producers could not deliver: kept, searched for in the log, sent again."""
