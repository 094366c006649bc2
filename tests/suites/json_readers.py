"""A JSON message through the block reader, the single reader and verify's reader: a row, or the class of a fault."""

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from functools import cache
from typing import Any

import pyarrow as pa

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Field
from platform_defs.formats.blocks.decoded import Row
from platform_defs.formats.json.decode import decode
from platform_defs.formats.json.single import MessageReader
from platform_defs.verify.compare.chunk_validator import ChunkValidator
from platform_defs.verify.source.messages import Chunk
from platform_defs.verify.validators.validator import Validator

Outcome = tuple[Any, ...] | str  # the values of a row, in one spelling; or the class of a fault
Columns = tuple[tuple[str, str], ...]  # names and types of a contract's columns
Read = Callable[[Contract, bytes], Outcome]

GOOD = b"{}"  # a message beside the one under test: a row of nulls
_EXACT = Context(prec=100)


def answer(request: tuple[Columns, Sequence[bytes], Sequence[str]]) -> list[dict[str, Outcome]]:
    """Return, for each message, the result of each of the readers named."""
    columns, values, names = request
    contract = _contract(columns)
    return [{name: _tried(READERS[name], contract, value) for name in names} for value in values]


def _tried(read: Read, contract: Contract, value: bytes) -> Outcome:
    try:
        found = read(contract, value)
    except Exception as error:  # noqa: BLE001  # a reader that raises is what is looked for
        return f"{type(error).__name__}: {error}"[:200]
    return found if isinstance(found, str) else tuple(map(plain, found))


@cache
def _contract(columns: Columns) -> Contract:
    fields = tuple(Field(name, column_type(of), required=False, rules=()) for name, of in columns)
    return Contract("p", "1", "d", "", "t", "json", fields, ())


@cache
def _single(contract: Contract) -> MessageReader:
    return MessageReader(contract)


@cache
def _validator(contract: Contract) -> ChunkValidator:
    return ChunkValidator(contract, Validator(contract))


def _read_block(contract: Contract, value: bytes) -> Outcome:
    """Return the outcome of reading it between good messages, which stay rows."""
    found = decode(contract, pa.array([GOOD, value, GOOD], pa.binary()))
    rows: Any = zip(found.indexes.to_pylist(), found.rows.to_pylist(), strict=True)
    outcomes: dict[int, Outcome] = {index: tuple(row.values()) for index, row in rows}
    return _in_the_middle(outcomes | {fault.index: fault.error_class for fault in found.faults}, contract)


def _read_single(contract: Contract, value: bytes) -> Outcome:
    found = _single(contract).read(value)
    return tuple(found.values) if isinstance(found, Row) else found.error_class


def _read_verify(contract: Contract, value: bytes) -> Outcome:
    values: list[bytes | None] = [GOOD, value, GOOD]
    none: list[bytes | None] = [None] * 3
    found = _validator(contract).validate(Chunk(0, 0, 3, [0, 1, 2], none, values, none, none))
    rows = zip(found.places.tolist(), found.rows.to_pylist(), strict=True)
    read: dict[int, Outcome] = {place: tuple(row.values()) for place, row in rows}
    return _in_the_middle(read | {place: why.reason for place, why in found.others.items()}, contract)


def _in_the_middle(found: Mapping[int, Outcome], contract: Contract) -> Outcome:
    nulls = (None,) * len(contract.fields)
    if sorted(found) != [0, 1, 2] or found[0] != nulls or found[2] != nulls:
        return f"its neighbours became {found}"
    return found[1]


def plain(value: Any) -> Any:
    """Return one form for values that are equal: decimals, JSON texts and the sign of zero."""
    if isinstance(value, Decimal):
        return str(value.normalize(_EXACT)) if value else "0"
    if isinstance(value, float):
        return repr(value)
    return [plain(item) for item in value] if isinstance(value, list) else value


def json_value(text: str) -> Any:
    """Return the value of a JSON text: numbers as they are written, objects as pairs."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal, object_pairs_hook=list)


READERS: dict[str, Read] = {"block": _read_block, "single": _read_single, "verify": _read_verify}
