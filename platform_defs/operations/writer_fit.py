"""Whether messages of a writer's schema can become rows of a contract: what the gate and `tidegate schema` ask."""

from platform_defs.contract.model import Contract
from platform_defs.errors import BadInput
from platform_defs.formats.writer_schema import OtherRecord, SchemaNotCompatible, WriterSchema


class AnotherRecord(Exception):
    """The schema is of a record that the contract does not read: that is no fault of either."""


def why_not(contract: Contract, writer: WriterSchema) -> str | None:
    """Why none of its messages becomes a row; None where they may. Raises AnotherRecord."""
    if writer.format != contract.format:
        return f"it is of type {writer.format}, and the contract reads {contract.format}"
    if writer.encrypted:
        return "rules of the registry encrypt fields of it, and only ciphertext could be stored"
    if contract.format == "json":
        return _json(contract, writer)
    try:
        from platform_defs.formats.supported import reader_of

        reader_of(contract, writer, indexed=True)
    except SchemaNotCompatible as wrong:
        return "; ".join(wrong.reasons)
    except OtherRecord as other:
        raise AnotherRecord(other.record) from None
    except (ValueError, RecursionError) as error:  # as when messages are read (formats/framed.py)
        return f"it cannot be loaded: {error}"
    return None


def _json(contract: Contract, writer: WriterSchema) -> str | None:
    """JSON is read whatever its schema says; what that says must not contradict the contract."""
    from platform_defs.exchange.from_json_schema import type_at

    reasons = list[str]()
    try:
        for item in contract.fields:
            found = type_at(writer.document, item.path)
            if found is None and item.required:
                reasons.append(f"{item.place} is required by the contract; the schema has no such field")
            elif found is not None and not _is_read(item.type.kind, found[0].partition("(")[0]):
                reasons.append(f"{item.place} is {found[0]}; the contract requires {item.type.name}")
    except (BadInput, ValueError, RecursionError) as wrong:
        return f"the schema cannot be read: {wrong}"
    return "; ".join(reasons) or None


def _is_read(wanted: str, found: str) -> bool:
    """Whether JSON of a schema's type may be a value of a contract's: "json" stands for what says no one type."""
    return wanted in ("json", found) or found in _ALSO.get(wanted, ()) or found == "json"


_ALSO = {  # JSON values that are read too: their schema says less than the contract, or more
    "string": ("date", "timestamp", "time", "uuid", "bytes", "decimal"),
    "double": ("integer",),
    "decimal": ("integer", "double", "string"),
    "date": ("string",),
    **dict.fromkeys(("timestamp", "time", "uuid", "bytes"), ("string",)),
}
