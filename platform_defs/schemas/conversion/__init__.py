"""A contract as an Avro, Protobuf or JSON schema, and a schema as a contract."""
