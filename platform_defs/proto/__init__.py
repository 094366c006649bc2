"""Google's compiler of Protobuf schemas, and the schemas that no registry has."""
