"""The check that the registry's ids still mean what they meant when messages named them: it may have been rebuilt."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from platform_defs.errors.halts import RegistrySwitched
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.ledger.published import SchemaCount
from platform_defs.ledger.schema_ledger import SchemaInUse, SchemaLedger, schema_digest
from platform_defs.registry.client import RegistryClient, client_of
from platform_defs.registry.cooldown import Cooldown
from platform_defs.registry.policy import COMPARE, CONFIRM
from platform_defs.settings.registry_address import Registry

# For this process: the registries that did not answer a comparison, and the comparisons that found no change.
_silent, _compared = Cooldown(), Cooldown()


@dataclass(frozen=True)
class Comparison:
    """Compares the registry's schemas with the ledger's. A run can do without: it does not wait long for answers."""

    ledger: SchemaLedger
    generation: int  # the newest: the registry's current one
    address: Registry
    subject: str  # the contract's: it has the context of the ids
    in_use: tuple[SchemaInUse, ...]
    _digests: dict[str, str] = field(default_factory=dict[str, str])  # by key: the ledger's answers

    def of_those_in_use(self) -> RegistrySwitched | None:
        """Return the ids in use that mean something else now. None also if the registry does not answer, or if the same
        was compared within the last minute.
        """
        asked = str(self.address), self.ledger.registry, *self.in_use
        if _silent.has(str(self.address)) or _compared.has(asked):
            return None
        now = self._now(self.in_use)
        changed = _changed(self.in_use, now)
        if now and all(now.values()) and not changed:  # an id that is gone may come back as another
            _compared.note(asked)
        return self._switched(changed)

    def of_those_named(self, named: Iterable[SchemaCount]) -> RegistrySwitched | None:
        """Return the ids that messages name and that mean something else now. Raises LedgerAway."""
        keys = {one.key for one in named if one.generation == self.generation}
        if new := keys - self._digests.keys():
            self._digests.update(self.ledger.digests(self.generation, new))
        known = [SchemaInUse(key, self._digests[key]) for key in sorted(keys & self._digests.keys())]
        return self._switched(_changed(known, self._now(known)))

    def agrees(self, client: RegistryClient) -> bool | None:
        """Return True if no id in use means something else now; None if the registry gives none of them. Each is waited
        for as long as a new schema would be: one that stays without an answer is ignored, and for a minute the next
        comparison waits for less.
        """
        ids, about = _ids(self.in_use), ("of all", str(self.address))
        if not ids:
            return True
        patience = client.registry.pace.quickly if _silent.has(about) else client.registry.patience
        now = client.lookup(ids, CONFIRM, self.subject, patience)
        if len(now) < len(ids):
            _silent.note(about)
        return not _changed(self.in_use, now) if any(now.values()) else None

    def holds_for_any(self, client: RegistryClient) -> bool:
        """Return True if any id or GUID in use means what it meant."""
        now = client.lookup([one.key for one in self.in_use], COMPARE, self.subject, client.registry.pace.quickly)
        return any((found := now.get(one.key)) and schema_digest(found) == one.sha256 for one in self.in_use)

    def _now(self, known: Iterable[SchemaInUse]) -> Mapping[str, WriterSchema | None]:
        """Return the current schemas of the ids for which the registry answers in time."""
        ids = _ids(known)
        if not ids:
            return {}
        pace = self.address.pace
        patience = pace.again if _silent.has(str(self.address)) else pace.quickly
        answers = client_of(self.address).lookup(ids, COMPARE, self.subject, patience)
        if not answers:
            _silent.note(str(self.address))
        return answers

    def _switched(self, changed: list[str]) -> RegistrySwitched | None:
        return RegistrySwitched(self.ledger.registry, tuple(changed)) if changed else None


def _ids(known: Iterable[SchemaInUse]) -> list[str]:
    """Return the ids that can come to mean something else: a GUID cannot."""
    return [one.key for one in known if one.key.isdecimal()]


def _changed(known: Iterable[SchemaInUse], now: Mapping[str, WriterSchema | None]) -> list[str]:
    """Return the ids that mean something else now. One that is gone may come back."""
    return [one.key for one in known if (found := now.get(one.key)) and schema_digest(found) != one.sha256]
