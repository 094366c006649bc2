"""The commands about the ledger's database."""
