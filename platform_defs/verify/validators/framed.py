"""Validation of a message that names its schema, by the schema that was known when it was read."""

from collections.abc import Callable, Sequence
from typing import Any

from platform_defs.contract.model.contract import Contract
from platform_defs.verify.decoders.avro import AvroValidator
from platform_defs.verify.decoders.documents import NotTheType
from platform_defs.verify.decoders.protobuf import ProtobufValidator
from platform_defs.verify.validators.known_schemas import KnownSchemas, Named, NamedSchema, taken_apart
from platform_defs.verify.validators.validator import NoRow, Row, Validator

Values = Callable[[bytes], Sequence[Any]]  # a payload → a value for each field; raises NotTheType


class FramedValidator(Validator):
    """Validates the messages of a contract whose messages name their schemas."""

    def __init__(self, contract: Contract, schemas: KnownSchemas) -> None:
        super().__init__(contract)
        self._contract, self._schemas = contract, schemas
        self._readers: dict[tuple[NamedSchema, bool], Values | NoRow] = {}
        wire = contract.wire
        self._of_file = NamedSchema("", contract.format, wire.schema_text, wire.schema_imports, encrypted=False)

    def at(self, partition: int, offset: int, value: bytes | None, header: bytes | None) -> Row | NoRow:
        """See `Validator.at`."""
        if not self._contract.wire.framed:
            return NoRow("NullValue") if value is None else self._validated(self._of_file, Named("", value, b""))
        named = taken_apart(self._contract.wire.framing, value, header, protobuf=self._contract.format == "protobuf")
        if isinstance(named, NoRow):
            return named
        schema = self._schemas.at(partition, offset).get(named.key)
        found = NoRow("UnknownSchemaId") if schema is None else self._validated(schema, named)
        other = found == NoRow("OtherRecord") and self._contract.wire.other_records == "skip"
        return NoRow("OtherRecord", skipped=True) if other else found

    def _validated(self, schema: NamedSchema, named: Named) -> Row | NoRow:
        if schema.format != self._contract.format:
            return NoRow("WrongSchemaType")
        if schema.encrypted:
            return NoRow("SchemaNotCompatible")
        if schema.format == "json":
            return self.value(named.payload)
        reader = self._reader(schema, indexed=named.message != b"")
        try:
            if isinstance(reader, NoRow):
                return reader
            indexes = named.message or b"" if schema.format == "protobuf" else b""  # only Protobuf has any in a header
            return self.ruled(reader(indexes + named.payload))
        except NotTheType as wrong:
            return NoRow(str(wrong))

    def _reader(self, schema: NamedSchema, *, indexed: bool) -> Values | NoRow:
        if (schema, indexed) not in self._readers:
            try:
                found = _READERS[schema.format](self._contract, schema, indexed)
            except NotTheType as wrong:
                found = NoRow(str(wrong))
            self._readers[schema, indexed] = found
        return self._readers[schema, indexed]


def validator_of(contract: Contract, schemas: Callable[[], KnownSchemas]) -> Validator:
    """Return the validator of a contract's messages; `schemas` is only called if they name any."""
    if contract.wire.framed:
        return FramedValidator(contract, schemas())
    return Validator(contract) if contract.format == "json" else FramedValidator(contract, KnownSchemas())


_READERS: dict[str, Callable[[Contract, NamedSchema, bool], Values]] = {
    "avro": lambda contract, schema, _: AvroValidator(contract, schema.document, schema.references).values,
    "protobuf": lambda contract, schema, indexed: (
        ProtobufValidator(contract, schema.document, schema.references, framed=indexed).values
    ),
}
