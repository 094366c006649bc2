"""verify's own readers of JSON, Avro and Protobuf, none of which the engine uses."""
