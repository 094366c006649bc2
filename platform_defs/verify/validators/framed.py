"""Validation of a message that names its schema, by the schema that was known when it was read."""

from collections.abc import Callable, Sequence
from typing import Any

from platform_defs.contract.model.contract import Contract
from platform_defs.verify.decoders.avro import AvroValidator
from platform_defs.verify.decoders.documents import NotTheType
from platform_defs.verify.decoders.protobuf import ProtobufValidator
from platform_defs.verify.validators.known_schemas import KnownSchemas, Named, NamedSchema, cached, unframed
from platform_defs.verify.validators.validator import NoRow, Row, Validator

Values = Callable[[bytes], Sequence[Any]]  # a payload → a value for each field; raises NotTheType


class FramedValidator(Validator):
    """Validates the messages of a contract whose messages name their schemas."""

    def __init__(self, contract: Contract, schemas: KnownSchemas) -> None:
        super().__init__(contract)
        self._contract, self._schemas = contract, schemas
        self._reader = cached(self._new_reader)
        wire = contract.wire
        self._of_file = NamedSchema("", contract.format, wire.schema_text, wire.schema_imports, encrypted=False)

    def at(self, partition: int, offset: int, value: bytes | None, header: bytes | None) -> Row | NoRow:
        """See `Validator.at`."""
        wire, kind = self._contract.wire, self._contract.format
        try:
            if not wire.framed:
                return NoRow("NullValue") if value is None else self._validated(self._of_file, Named("", value, b""))
            named = unframed(wire.framing, value, header, protobuf=kind == "protobuf")
            return self._validated(self._schemas.named(named.key, kind, partition, offset), named)
        except NotTheType as wrong:
            other = wire.framed and str(wrong) == "OtherRecord" and wire.other_records == "skip"
            return NoRow(str(wrong), skipped=other)

    def _validated(self, schema: NamedSchema, named: Named) -> Row | NoRow:
        if schema.format == "json":
            return self.value(named.payload)
        indexes = named.message or b"" if schema.format == "protobuf" else b""  # only Protobuf has any in a header
        return self.ruled(self._reader(schema, named.message != b"")(indexes + named.payload))

    def _new_reader(self, schema: NamedSchema, indexed: bool) -> Values:
        if schema.format == "avro":
            return AvroValidator(self._contract, schema.document, schema.references).values
        return ProtobufValidator(self._contract, schema.document, schema.references, framed=indexed).values


def validator_of(contract: Contract, schemas: Callable[[], KnownSchemas]) -> Validator:
    """Return the validator of a contract's messages; `schemas` is only called if they name any."""
    if contract.wire.framed:
        return FramedValidator(contract, schemas())
    return Validator(contract) if contract.format == "json" else FramedValidator(contract, KnownSchemas())
