"""A contract as a schema, in any of the languages."""

from collections.abc import Callable, Mapping

from platform_defs.contract.model.contract import Contract, Format
from platform_defs.schemas.conversion.avro import avro_schema
from platform_defs.schemas.conversion.json_schema import json_schema
from platform_defs.schemas.conversion.protobuf import proto_text

_WRITERS: Mapping[Format, Callable[[Contract], str]] = {
    "avro": avro_schema,
    "protobuf": proto_text,
    "json": json_schema,
}


def export_schema(contract: Contract, kind: Format) -> str:
    """Return the schema's text. Raises BadInput for a contract that cannot be written in the language."""
    return _WRITERS[kind](contract)
