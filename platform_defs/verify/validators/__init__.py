"""Which messages become rows, by the contract."""
