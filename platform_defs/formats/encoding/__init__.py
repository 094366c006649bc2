"""Messages from JSON documents: Avro and Protobuf by a schema, framed as a contract says."""
