"""The gate against the registry: every schema of the subject must fit the contract, and the contract's own the subject.

(a) Each of the newest versions of the subject, and each schema that messages named, must resolve to the contract by
Tidegate's own resolver, logical types included: registries treat a decimal of another scale as compatible.

(b) The registry must accept the schema that the contract exports as the next version, unless the contract's
compatibility is NONE: then producers decide about the schema.
"""

from dataclasses import dataclass
from functools import cached_property

from platform_defs.contract.model.contract import Contract
from platform_defs.contract_changes.gate_result import Checked
from platform_defs.errors import BadInput, LedgerAway, LedgerMissing, LedgerOutdated, LedgerTooNew, TidegateError
from platform_defs.errors.words import plural
from platform_defs.schemas.conversion.exporting import export_schema
from platform_defs.schemas.survey import SchemaSurvey, survey
from platform_defs.settings.registry_address import Registry
from platform_defs.settings.settings import settings
from platform_defs.stack.endpoints import ledger_if_any, registry_alone

MAX_VERSIONS = 100  # of a subject, the newest: a gate that reads thousands would not end in time


@dataclass(frozen=True)
class RegistryGate:
    """The check against the registry, and the ledger if there is one."""

    @cached_property
    def address(self) -> Registry:
        return registry_alone()

    @cached_property
    def ledger_url(self) -> str | None:
        return ledger_if_any()

    def check(self, contract: Contract) -> Checked:
        """Return the result for the contract; `not compared` if the registry is unavailable."""
        try:
            found, unasked = self._survey(contract)
            skips = contract.wire.other_records == "skip"
            fits = ("fits", "other record") if skips else ("fits",)
            wrong = [f"{one.place}, does not fit: {one.reason}" for one in found.schemas if one.fit not in fits]
            refused, noticed = self._refused(contract)
        except (TidegateError, OSError) as error:
            return Checked(contract.pipeline, contract.path, "not compared", problems=(str(error),))
        result = "does not fit" if wrong + refused else "fits"
        problems, notices = (*wrong, *refused), (_counted(found), *unasked, *noticed)
        return Checked(contract.pipeline, contract.path, result, problems=problems, notices=notices)

    def _survey(self, contract: Contract) -> tuple[SchemaSurvey, list[str]]:
        """Return the schemas, and notices; without a ledger its schemas are missing, and a notice says so."""
        name = settings().registry_name
        try:
            found = survey(contract, self.address, self.ledger_url, name, MAX_VERSIONS)
            notices = [f"{who} was not checked: there is none" for who in found.unasked]
        except (LedgerAway, LedgerMissing, LedgerOutdated, LedgerTooNew) as error:
            found = survey(contract, self.address, None, name, MAX_VERSIONS)
            notices = [f"the ledger was not checked: {error}"]
        if found.older:
            older = plural(found.older, "version")
            notices.insert(0, f"{found.subject}: {older} older than the newest {MAX_VERSIONS} not checked")
        return found, notices

    def _refused(self, contract: Contract) -> tuple[list[str], list[str]]:
        """Return why the registry would not accept the contract's own schema; and why it was not queried."""
        from platform_defs.registry.subjects import Subjects

        if contract.wire.compatibility == "NONE":
            return [], []
        try:
            document = export_schema(contract, contract.format)
        except BadInput as error:
            return [], [f"the registry was not queried about the contract's schema: {error.problem}"]
        messages = Subjects(self.address).incompatibilities(contract.wire.subject, contract.format, document)
        return [f"the registry would not accept the contract's schema: {one}" for one in messages], []


def _counted(found: SchemaSurvey) -> str:
    fitting = sum(one.fit == "fits" for one in found.schemas)
    others = sum(one.fit == "other record" for one in found.schemas)
    if not found.schemas:
        return f"{found.subject} has no version yet (tidegate contract register)"
    also = f", {others} of other records" if others else ""
    return f"{found.subject}: {plural(len(found.schemas), 'schema')}, {fitting} fit{also}"
