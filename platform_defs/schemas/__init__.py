"""`tidegate schema`: the schemas that a contract's messages are written with."""
