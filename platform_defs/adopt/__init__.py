"""`tidegate adopt`: restored or moved tables are bound to their pipeline again."""
