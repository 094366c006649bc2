"""Avro: decoding, agreement with other readers, and wrong bytes."""
