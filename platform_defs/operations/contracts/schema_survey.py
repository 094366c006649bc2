"""The schemas of a contract's subject and of its messages, and if they fit the contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from platform_defs.contract.model.contract import Contract
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.writer_fit import why_not

if TYPE_CHECKING:
    from resources.postgres.ledger.schema_answers import Named
    from resources.registry.address import Registry
    from resources.registry.subjects import Version

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
    versions, older = _registered(contract, address, most) if address else ((), 0)
    named, newest = _named(contract, ledger_url, registry_name) if ledger_url else ((), 1)
    fits = _Fits(contract)
    now = {one.schema: one for one in named if one.generation == newest}
    found = list(fits.of_versions(versions, now))
    known = {one.schema for one in versions}
    rest = [one for one in named if one.generation != newest or one.schema not in known]
    found += [fits.of_named(one) for one in rest]
    missing = {"the registry": address, "the ledger": ledger_url}
    return SchemaSurvey(subject, tuple(found), tuple(name for name, at in missing.items() if at is None), older)


def subject_of(contract: Contract) -> str:
    """Return the subject. Raises BadInput for a contract whose messages name no schema of a registry."""
    if contract.wire.framed:
        return contract.wire.subject
    file = str(contract.path) if contract.path else None
    raise BadInput("its messages name no schema of a registry (framing: none)", file=file, field=contract.pipeline)


def _registered(contract: Contract, address: Registry, most: int | None) -> tuple[Sequence[Version], int]:
    """Return the newest versions, and the number of older ones."""
    from resources.registry.subjects import Subjects

    subject, subjects = contract.wire.subject, Subjects(address)
    numbers = subjects.numbers(subject)
    newest = numbers[-most:] if most else numbers
    return subjects.versions(subject, newest), len(numbers) - len(newest)


def _named(contract: Contract, url: str, registry_name: str) -> tuple[Sequence[Named], int]:
    from resources.postgres.ledger.schema_answers import SchemaAnswers
    from resources.registry.client import name_in_ledger

    answers = SchemaAnswers(url, name_in_ledger(registry_name, contract.wire.subject))
    return answers.named(contract.pipeline), answers.newest_generation(contract.pipeline)


@dataclass(frozen=True)
class _Fits:
    """The comparison of schemas with the contract."""

    contract: Contract

    def of_versions(self, versions: Sequence[Version], named: Mapping[WriterSchema, Named]) -> Iterator[WriterFit]:
        for version in versions:
            if version.schema is None:
                yield WriterFit(version.key, self.contract.format, "does not fit", UNREADABLE, version.number)
                continue
            fit = replace(self._of(version.schema), version=version.number)
            yield _seen(fit, named[version.schema]) if version.schema in named else fit

    def of_named(self, one: Named) -> WriterFit:
        return _seen(self._of(one.schema), one)

    def _of(self, schema: WriterSchema) -> WriterFit:
        refused = why_not(self.contract, schema)
        if refused is None:
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
