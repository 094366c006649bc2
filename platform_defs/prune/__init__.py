"""`tidegate prune`: removes what is no longer needed from the ledger's history."""
