"""A contract as a schema of another language, and a schema as a contract: Avro, Protobuf, JSON Schema. Pure."""
