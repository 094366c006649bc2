"""Commands about the embedded servers, the Dagster UI, the ledger and this machine."""
