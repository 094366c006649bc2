"""The schemas of a contract's subject and of its messages, and if they fit the contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from platform_defs.contract.model.contract import Contract
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.writer_fit import why_not

if TYPE_CHECKING:
    from platform_defs.registry.subjects import Version
    from platform_defs.schemas.ledger import Named
    from platform_defs.settings.registry_address import Registry

Fit = Literal["fits", "does not fit", "other record"]

UNREADABLE = (
    "the registry returned no readable schema: it is unknown, of a different type, or one of its references is missing"
)


@dataclass(frozen=True)
class WriterFit:
    """A schema, its source, and if its messages can become rows."""

    key: str  # the registry's id, or a GUID
    format: str
    fit: Fit
    reason: str  # why it does not fit, or the record it is of; empty if it fits
    version: int | None = None  # of the subject; None: only messages named it
    generation: int | None = None  # of the registry; None: no message has named it
    messages: int = 0
    first_batch: int | None = None
    last_batch: int | None = None
    first_seen_at: datetime | None = None

    @property
    def place(self) -> str:
        """The schema as a clause of a sentence."""
        version = f"version {self.version} (id {self.key})" if self.version is not None else f"schema {self.key}"
        if not self.messages:
            return f"{version}, not used by any message"
        return f"{version}, used by {plural(self.messages, 'message')} since batch {self.first_batch}"


@dataclass(frozen=True)
class SchemaSurvey:
    """The schemas in the registry and the ledger."""

    subject: str
    schemas: tuple[WriterFit, ...]  # versions first, ascending, then schemas that only messages named
    unasked: tuple[str, ...] = ()  # systems that were not queried
    older: int = 0  # versions that were not read


def survey(
    contract: Contract, address: Registry | None, ledger_url: str | None, registry_name: str, most: int | None = None
) -> SchemaSurvey:
    """Compare each version of the subject, or the newest `most`, and each schema that messages named, with the
    contract.

    Raises BadInput for a contract whose messages name none, RegistryAway, LedgerMissing, LedgerAway.
    """
    subject = subject_of(contract)
    versions, older = _registered(subject, address, most) if address else ((), 0)
    named: Sequence[Named] = ()
    newest = 1
    if ledger_url:
        from platform_defs.ledger.schema_ledger import registry_scope
        from platform_defs.schemas.ledger import SchemaAnswers

        answers = SchemaAnswers(ledger_url, registry_scope(registry_name, subject))
        named, newest = answers.named(contract.pipeline), answers.newest_generation(contract.pipeline)
    now = {one.schema: one for one in named if one.generation == newest}
    found = list[WriterFit]()
    for one in versions:
        if one.schema is None:
            found.append(WriterFit(one.key, contract.format, "does not fit", UNREADABLE, one.number))
            continue
        fit = replace(_fit(contract, one.schema), version=one.number)
        found.append(_seen(fit, now[one.schema]) if one.schema in now else fit)
    known = {one.schema for one in versions}
    rest = [one for one in named if one.generation != newest or one.schema not in known]
    found += [_seen(_fit(contract, one.schema), one) for one in rest]
    missing = {"the registry": address, "the ledger": ledger_url}
    return SchemaSurvey(subject, tuple(found), tuple(name for name, at in missing.items() if at is None), older)


def subject_of(contract: Contract) -> str:
    """Return the subject. Raises BadInput for a contract whose messages name no schema of a registry."""
    if contract.wire.framed:
        return contract.wire.subject
    file = str(contract.path) if contract.path else None
    raise BadInput("its messages name no schema of a registry (framing: none)", file=file, field=contract.pipeline)


def _registered(subject: str, address: Registry, most: int | None) -> tuple[Sequence[Version], int]:
    """Return the newest versions, and the number of older ones."""
    from platform_defs.registry.subjects import Subjects

    subjects = Subjects(address)
    numbers = subjects.numbers(subject)
    newest = numbers[-most:] if most else numbers
    return subjects.versions(subject, newest), len(numbers) - len(newest)


def _fit(contract: Contract, schema: WriterSchema) -> WriterFit:
    if (refused := why_not(contract, schema)) is None:
        return WriterFit(schema.key, schema.format, "fits", "")
    fit: Fit = "other record" if refused.error_class == "OtherRecord" else "does not fit"
    return WriterFit(schema.key, schema.format, fit, refused.reason)


def _seen(fit: WriterFit, one: Named) -> WriterFit:
    return replace(
        fit,
        generation=one.generation,
        messages=one.messages,
        first_batch=one.first_batch,
        last_batch=one.last_batch,
        first_seen_at=one.first_seen_at,
    )
