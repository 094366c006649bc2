"""Protobuf: decoding, agreement with other readers, and wrong bytes."""
