"""The contract: its document, its keys, its reader and its model."""
