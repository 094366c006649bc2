"""Avro, Protobuf and JSON, read apart from the engine's formats."""
