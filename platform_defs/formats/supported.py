"""From the values of a block of messages to rows: each format has a folder beside this file, and a line here."""

from collections.abc import Callable

import pyarrow as pa

from platform_defs.contract.model import Contract
from platform_defs.formats.decoded import Decoded
from platform_defs.formats.json.decode import decode_json

_FORMATS: dict[str, Callable[[Contract, pa.BinaryArray], Decoded]] = {"json": decode_json}


def decode(contract: Contract, values: pa.BinaryArray) -> Decoded:
    """The rows and faults of `values`, in the contract's format. Pure; never raises for what a message holds.

    A missing or null field is null in `rows`. A null value (tombstone) is a fault: an upsert pipeline removes those
    first.
    """
    return _FORMATS[contract.format](contract, values)
