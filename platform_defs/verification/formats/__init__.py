"""verify's own readers of JSON, Avro and Protobuf; the engine uses none of them."""
