"""Generated messages in the contract's own format: Avro, Protobuf or framed JSON, with the id of a schema before them.

samples.py makes them as JSON, which is then written by a registered schema, or the one in the contract's schema file.
For bad messages, verify's validator gives in advance the reason of each dead letter.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from json import loads

from platform_defs.contract.model.contract import UNFRAMED, Contract, Field, RowRule
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.encoding.documents import CannotEncode
from platform_defs.formats.encoding.messages import Headers, MessageSchemas, framing, key_encoder
from platform_defs.formats.framing import HEADERS
from platform_defs.samples.samples import Sample, Samples
from platform_defs.samples.values_at import ValuesAt, places_of
from platform_defs.schemas.conversion.found import FoundField
from platform_defs.schemas.conversion.importing import read_message
from platform_defs.verify.validators.framed import FramedValidator
from platform_defs.verify.validators.known_schemas import KnownSchemas, NamedSchema
from platform_defs.verify.validators.validator import NoRow


class EncodedSamples:
    """Samples in bytes of the contract's format. Raises BadInput if its schema has no way to write them."""

    def __init__(self, contract: Contract, schemas: MessageSchemas, seed: int | None = None) -> None:
        bare = replace(contract, format="json", wire=UNFRAMED, fields=_narrowed(contract, schemas.value))
        self._contract, self._schemas, self._plain = contract, schemas, Samples(bare, seed)
        self._write, index = _writer(contract, schemas.value)
        self._before, self.headers = framing(contract, schemas, index)
        self._key = _key_writer(contract, schemas.key)
        self._spare = next(one for one in self._plain.good(_POOL) if one.value is not None)
        self._bytes = self._written(self._spare)
        self._faults = list(self._find_faults())

    @property
    def reasons(self) -> tuple[str, ...]:
        """See `Samples`."""
        return tuple(reason for _, reason in self._faults)

    def good(self, count: int) -> Iterator[Sample]:
        """See `Samples`."""
        for sample in self._plain.good(count):
            value = None if sample.value is None else self._written(sample)
            yield replace(sample, key=None if sample.key is None else self._key(sample.key), value=value)

    def bad(self, number: int, good: Sample) -> Sample:
        """See `Samples`."""
        value, reason = self._faults[number % len(self._faults)]
        return replace(good, value=value, reason=reason)

    def _written(self, sample: Sample) -> bytes:
        try:
            return self._before + self._write(sample.value or b"")
        except CannotEncode as wrong:
            raise BadInput(
                f"schema {self._schemas.value.key} cannot encode a message of the contract: {wrong}",
                field=self._contract.pipeline,
            ) from None

    def _find_faults(self) -> Iterator[tuple[bytes, str]]:
        """Yield a message for each way to spoil one, with its reason; only the first for each reason."""
        validate, found = _validator(self._contract, self._schemas.value), set[str]()
        for value in self._spoiled():
            result = validate(value, self.headers)
            if isinstance(result, NoRow) and result.reason not in found:
                found.add(result.reason)
                yield value, result.reason

    def _spoiled(self) -> Iterator[bytes]:
        yield self._bytes[:-1]
        yield self._bytes + b"\0"
        yield self._spare.value or b""
        for number in range(len(self._plain.reasons)):
            spoiled = self._plain.bad(number, self._spare)
            try:
                yield self._before + self._write(spoiled.value or b"")
            except (CannotEncode, ValueError):  # it cannot be wrong in that way
                continue


_POOL = 1_000


def _narrowed(contract: Contract, schema: WriterSchema) -> tuple[Field, ...]:
    """Return the fields, with the schema's limits: fields that it requires are never null, and an enum has its symbols
    if the contract gives none.
    """
    try:
        message = read_message(schema, contract.wire.record if contract.format != "json" else "")
    except BadInput:  # more fields than a table has columns, say
        return contract.fields
    found = {item.path: item for item in message.fields}
    return tuple(_narrowed_field(item, found) for item in contract.fields)


def _narrowed_field(item: Field, found: Mapping[MessagePath, FoundField]) -> Field:
    here = next((found[path] for path in (item.path, *item.aliases) if path in found), None)
    if here is None:
        return item
    # An Avro timestamp has its own unit.
    unit = None if here.type == "timestamp" else item.unit
    item = replace(item, required=item.required or here.required, unit=unit)
    if not here.symbols or item.type.kind != "string" or any(rule.kind == "enum" for rule in item.rules):
        return item
    rule = RowRule(f"{item.name}_enum", item.name, "enum", here.symbols, "")
    return replace(item, rules=(*item.rules, rule))


def _writer(contract: Contract, schema: WriterSchema) -> tuple[Callable[[bytes], bytes], bytes]:
    """Return the function that writes a JSON document, and Protobuf's index of the message."""
    if contract.format == "json":
        return (lambda document: document), b""
    places = places_of(contract.fields)
    if contract.format == "avro":
        from platform_defs.formats.encoding.avro import avro_encoder
        from platform_defs.samples.avro_writer import AvroWriter

        avro = avro_encoder(schema, contract.wire.record)
        made, index = AvroWriter(avro.schema, avro.root, avro.branch), b""
    else:
        from platform_defs.formats.encoding.protobuf import protobuf_encoder
        from platform_defs.samples.protobuf_writer import ProtobufWriter

        encoder = protobuf_encoder(schema, contract.wire.record)
        made, index = ProtobufWriter(encoder), encoder.index
    return (lambda document: made.payload(ValuesAt(loads(document, parse_float=Decimal), places))), index


def _key_writer(contract: Contract, schema: WriterSchema | None) -> Callable[[bytes], bytes]:
    """Return the function that makes a key from a text. Raises BadInput if the keys' schema has no place for one."""
    if schema is None:
        return lambda key: key
    encode = key_encoder(contract, schema, alone=False)
    try:
        encode("")
    except CannotEncode:
        raise BadInput(
            f"key schema {schema.key} is not for text, and only text keys can be generated", field=contract.pipeline
        ) from None
    return lambda key: encode(key.decode())


def _validator(contract: Contract, schema: WriterSchema) -> Callable[[bytes, Headers], object]:
    """Return verify's validation of a value and its headers."""
    known = KnownSchemas()
    named = NamedSchema(schema.key, schema.format, schema.document, schema.references, encrypted=False)
    known.add(0, 0, 1, named)
    validator = FramedValidator(contract, known)
    return lambda value, headers: validator.at(0, 0, value, dict(headers).get(HEADERS["value"]))
