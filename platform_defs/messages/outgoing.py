"""Conversion of values to messages for `tidegate send`, by the contract, or the reason for a dead letter.

The engine's own reader decodes and checks each message before it is sent, so that the refused ones are those that a run
would refuse. A transform and the table may still refuse a message later.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from platform_defs.contract.model.classified import classified
from platform_defs.contract.model.contract import Contract, Fault
from platform_defs.contract.redaction import INSTEAD, redacted
from platform_defs.engine.task.message_keys import KeyColumn, key_texts
from platform_defs.engine.task.metadata_columns import with_metadata
from platform_defs.engine.task.row_checks import check_rows
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.block import Block, in_parts, message_blocks
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.formats.encoding.documents import CannotEncode
from platform_defs.formats.encoding.messages import MessageEncoder, MessageSchemas
from platform_defs.formats.framed import FramedReader, reader_of_file
from platform_defs.formats.framing import HEADERS
from platform_defs.formats.json.decode import decode
from platform_defs.messages.lines import Line
from platform_defs.producers.message import Message

NOT_ENCODED = "NotEncoded"  # error class: the schema cannot represent the document
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Refused:
    """A value that is not sent. `error_class`: of the dead letter that it would be."""

    number: int
    error_class: str
    reason: str

    def __str__(self) -> str:
        if self.error_class == NOT_ENCODED:
            return f"{self.number} cannot be encoded: {self.reason}"
        return f"{self.number} would be a dead letter ({self.error_class}): {self.reason}"


class Outgoing(NamedTuple):
    """A message, and the number of its value."""

    number: int
    message: Message


@dataclass(frozen=True)
class Unchecked:
    """Converts values to messages unchanged."""

    key: bytes | None
    headers: Headers = ()
    partition: int | None = None
    null: bool = False

    def messages(self, lines: Sequence[Line]) -> list[Outgoing | Refused]:
        """Return a message for each value; without the value if `null`. None is refused."""
        return [
            Outgoing(line.number, Message(None if self.null else line.text, self.key, self.headers, self.partition))
            for line in lines
        ]


@dataclass(frozen=True)
class Checked:
    """Converts JSON documents to messages by a contract's schemas, and refuses those that would be dead letters.

    `key`: of each message; UTF-8 if keys are written with a schema. `null`: tombstones instead. Raises BadInput for a
    key or a header that cannot be sent.
    """

    contract: Contract
    schemas: MessageSchemas | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    null: bool = False

    def __post_init__(self) -> None:
        if taken := sorted({name for name, _ in self.headers} & {name for name, _ in self._framing_headers}):
            raise BadInput(
                f"the header {taken[0]} names the schema of the message, and Tidegate sets it; leave it out",
                field="--header",
            )
        faults = key_texts(pa.array([self.key], pa.binary()))[1] if self._keyed else ()
        if faults:  # no message with this key would become a row
            hint = "; set one with --key" if self.key is None else ""
            raise BadInput(f"{faults[0].message}{hint}. Nothing was sent", field=self.contract.pipeline)

    def messages(self, lines: Sequence[Line]) -> list[Outgoing | Refused]:
        """Return a message for each value, or why there is none. Blank lines are skipped."""
        made = [self._made(line) for line in lines if self.null or line.text.strip()]
        good = [item for item in made if isinstance(item, Outgoing)]
        faults = () if self.null and self._keyed else self._faults([item.message for item in good])
        refused = {good[fault.index].number: fault for fault in faults}
        return [self._refused(item.number, refused[item.number]) if item.number in refused else item for item in made]

    def _made(self, line: Line) -> Outgoing | Refused:
        framing = self._framing_headers
        if self.null:
            of_key = tuple(header for header in framing if header[0] != HEADERS["value"])
            return Outgoing(line.number, Message(None, self._key, (*self.headers, *of_key), self.partition))
        try:
            value = self._encoder.value(line.text.removesuffix(b"\r"))
        except CannotEncode as wrong:
            return Refused(line.number, NOT_ENCODED, wrong.describe(hide_values=classified(self.contract).any))
        return Outgoing(line.number, Message(value, self._key, (*self.headers, *framing), self.partition))

    def _refused(self, number: int, fault: Fault) -> Refused:
        (shown,) = redacted(self.contract, [fault])
        return Refused(number, fault.error_class, shown.message.removesuffix(f" {INSTEAD}"))

    def _faults(self, messages: Sequence[Message]) -> list[Fault]:
        """Return why messages are dead letters; the index counts `messages`."""
        found, before = list[Fault](), 0
        for whole in message_blocks([_AsRead(number, message) for number, message in enumerate(messages)]):
            for block, decoded in in_parts(whole, self._decoded):
                found += [replace(fault, index=fault.index + before) for fault in decoded.faults]
                before += len(block.values)
        return found

    def _decoded(self, block: Block) -> Decoded:
        contract, reader = self.contract, self._reader
        if reader is None:
            decoded = decode(contract, block.values)
        else:
            by_header = contract.wire.framed and contract.wire.framing != "prefix"
            decoded = reader.read(block.values, block.headers(HEADERS["value"]) if by_header else None).decoded
        decoded = check_rows(contract.fields, decoded)
        if not contract.metadata_fields:
            return decoded
        keys = KeyColumn(*key_texts(pa.array([self.key] * len(block.values), pa.binary())), {})
        decoded = with_metadata(contract, self.partition or 0, block, keys, decoded.indexes, decoded)
        return check_rows(contract.metadata_fields, decoded)

    @cached_property
    def _reader(self) -> FramedReader | None:
        """The reader of messages that are written with a schema; None for bare JSON."""
        schemas = self.schemas
        if schemas is None:
            return None
        if not self.contract.wire.framed:
            return reader_of_file(self.contract)
        known = {schemas.value.key: schemas.value}
        return FramedReader(self.contract, lambda keys: {key: known.get(key) for key in keys})

    @property
    def _keyed(self) -> bool:
        return self.contract.row_table.disposition == "upsert"

    @cached_property
    def _key(self) -> bytes | None:
        subject = self.contract.key_subject
        if self.key is None or subject is None:
            return self.key
        try:
            return self._encoder.key(self.key.decode())
        except (CannotEncode, UnicodeDecodeError) as wrong:
            reason = wrong.describe(hide_values=True) if isinstance(wrong, CannotEncode) else "it is not UTF-8"
            raise BadInput(
                f"--key must be text that the schema of {subject} can encode: {reason}. Nothing was sent",
                field=self.contract.pipeline,
            ) from None

    @property
    def _framing_headers(self) -> Headers:
        return self._encoder.framing[1]

    @cached_property
    def _encoder(self) -> MessageEncoder:
        return MessageEncoder(self.contract, self.schemas)


@dataclass(frozen=True, slots=True)
class _AsRead:
    """A message as a consumer would return it (formats.blocks.block.Message)."""

    number: int
    message: Message

    def key(self) -> bytes | None:
        return self.message.key

    def value(self) -> bytes | None:
        return self.message.value

    def offset(self) -> int:
        return self.number

    def timestamp(self) -> tuple[int, int]:
        return 1, int(time.time() * 1_000)

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return list(self.message.headers)

    def leader_epoch(self) -> int | None:
        return None
