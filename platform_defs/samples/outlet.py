"""With which schema made-up messages are written: one that is registered under the contract's subject already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from platform_defs.contract.model import Contract
from platform_defs.errors import BadInput
from platform_defs.formats.writer_schema import WriterSchema
from platform_defs.samples.mixture import Source
from platform_defs.samples.samples import Samples

if TYPE_CHECKING:
    from platform_defs.samples.encoded import Outlet
    from resources.registry.address import Registry
    from resources.registry.subjects import Subjects, Version


def samples_of(
    contract: Contract, address: Registry | None, seed: int | None
) -> tuple[Source, Sequence[tuple[str, bytes]]]:
    """What makes up messages of the contract, and the headers of each of them.

    Raises BadInput where the subject has no schema that fits, and RegistryAway.
    """
    if contract.format == "json" and not contract.wire.framed:
        return Samples(contract, seed), ()
    from platform_defs.samples.encoded import EncodedSamples, Outlet

    if not contract.wire.framed:
        made = Outlet(WriterSchema("", contract.format, contract.wire.schema_text))
    else:
        made = _registered(contract, address)
    samples = EncodedSamples(contract, made, seed)
    return samples, samples.headers


def _registered(contract: Contract, address: Registry | None) -> Outlet:
    from platform_defs.samples.encoded import Outlet
    from resources.registry.subjects import Subjects

    if address is None:
        raise BadInput(
            "its messages name schemas, and there is no schema registry to ask: set TIDEGATE_REGISTRY_URL, or start "
            "the embedded one (tidegate stack up)",
            field=contract.pipeline,
        )
    subjects, keys = Subjects(address), contract.key_subject
    return Outlet(_value(contract, subjects), _key(contract, subjects, keys) if keys and contract.reads_keys else None)


def _value(contract: Contract, subjects: Subjects) -> WriterSchema:
    """The contract's own schema where it is registered, else the newest version."""
    subject = contract.wire.subject
    newest = subjects.version(subject)
    if newest is None:
        raise BadInput(
            f"{subject} has no schema yet, and messages are never written with one that is not registered: tidegate "
            f"contract register {contract.pipeline}",
            field=contract.pipeline,
        )
    from platform_defs.formats.writer_fit import why_not

    schema = _own(contract, subjects) or _readable(contract, subject, newest)
    if refused := why_not(contract, schema):
        raise BadInput(
            f"the newest version of {subject} (id {schema.key}) does not fit the contract: {refused.reason}",
            field=contract.pipeline,
        )
    return schema


def _own(contract: Contract, subjects: Subjects) -> WriterSchema | None:
    """The version that is what the contract exports."""
    from platform_defs.exchange.exporting import export_schema

    try:
        found = subjects.same(contract.wire.subject, contract.format, export_schema(contract, contract.format))
    except BadInput:  # it exports none, or none that the registry can read
        return None
    return found and found.schema


def _key(contract: Contract, subjects: Subjects, subject: str) -> WriterSchema:
    newest = subjects.version(subject)
    if newest is None:
        raise BadInput(
            f"{subject} has no schema yet, and the contract's keys are written with one: tidegate contract register "
            f"{contract.pipeline}",
            field=contract.pipeline,
        )
    return _readable(contract, subject, newest)


def _readable(contract: Contract, subject: str, newest: Version) -> WriterSchema:
    from platform_defs.operations.schema_survey import UNREADABLE

    if newest.schema is None:
        raise BadInput(
            f"the newest version of {subject} (id {newest.key}) cannot be used: {UNREADABLE}", field=contract.pipeline
        )
    return newest.schema
