"""Messages written by Avro: read with the schema of their writer, into the fields of the contract."""
