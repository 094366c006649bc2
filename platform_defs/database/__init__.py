"""The ledger's database: `tidegate migrate`, `tidegate rights` and `tidegate psql`."""
