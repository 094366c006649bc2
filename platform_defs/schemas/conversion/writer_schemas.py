"""The schemas that a contract's messages are written with: registered under its subjects, or from its schema file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_defs.contract.model.contract import Contract
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.writer_schema import WriterSchema, schema_of_file
from platform_defs.formats.encoding.messages import MessageSchemas

if TYPE_CHECKING:
    from platform_defs.registry.subjects import Subjects, Version
    from platform_defs.settings.registry_address import Registry


def message_schemas(contract: Contract, address: Registry | None, *, keyed: bool) -> MessageSchemas | None:
    """Return the schemas to write messages with; None for JSON that names no schema. `keyed`: messages have keys.

    Raises BadInput if a subject has no schema that fits the contract, and RegistryAway.
    """
    if not contract.wire.framed:
        if contract.format == "json":
            return None
        return MessageSchemas(schema_of_file(contract))
    from platform_defs.registry.subjects import Subjects

    if address is None:
        raise BadInput(
            "its messages carry schema ids, but no schema registry is configured: set TIDEGATE_REGISTRY_URL, or start "
            "the embedded one (tidegate stack up)",
            field=contract.pipeline,
        )
    subjects, keys = Subjects(address), contract.key_subject
    values = _of_values(contract, subjects)
    if not (keys and keyed):
        return MessageSchemas(values)
    newest = _newest(contract, subjects, keys, "the contract's keys are written with one")
    return MessageSchemas(values, _readable(contract, keys, newest))


def _of_values(contract: Contract, subjects: Subjects) -> WriterSchema:
    """Return the contract's own schema if it is registered, else the newest version."""
    subject = contract.wire.subject
    newest = _newest(contract, subjects, subject, "messages are never written with one that is not registered")
    from platform_defs.formats.writer_fit import why_not
    from platform_defs.schemas.conversion.exporting import export_schema

    try:
        own = subjects.same(subject, contract.format, export_schema(contract, contract.format))
    except BadInput:  # there is no export, or the registry cannot read it
        own = None
    schema = (own and own.schema) or _readable(contract, subject, newest)
    if refused := why_not(contract, schema):
        raise BadInput(
            f"the newest version of {subject} (id {schema.key}) does not fit the contract: {refused.reason}",
            field=contract.pipeline,
        )
    return schema


def _newest(contract: Contract, subjects: Subjects, subject: str, why: str) -> Version:
    if (newest := subjects.version(subject)) is None:
        raise BadInput(
            f"{subject} has no schema yet, and {why}: tidegate contract register {contract.pipeline}",
            field=contract.pipeline,
        )
    return newest


def _readable(contract: Contract, subject: str, newest: Version) -> WriterSchema:
    from platform_defs.schemas.survey import UNREADABLE

    if newest.schema is None:
        raise BadInput(
            f"the newest version of {subject} (id {newest.key}) cannot be used: {UNREADABLE}", field=contract.pipeline
        )
    return newest.schema
