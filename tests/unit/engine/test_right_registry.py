"""A batch without a known schema becomes dead letters, or fails because the registry may be the wrong one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from platform_defs.contract.model.contract import Contract, WireFormat
from platform_defs.engine.commit.right_registry import as_decided, refuse_switched_since, refuse_unknown
from platform_defs.engine.interfaces.source_and_staging import Coverage
from platform_defs.engine.interfaces.staged import FaultGroup, Staged
from platform_defs.errors import BadInput, Halt, SchemasNotGiven
from platform_defs.errors.halts import RegistrySwitched
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.ledger.published import SchemaCount
from platform_defs.offsets import OffsetRange, PendingBatch

CONTRACT = Contract("p", "1", "d", "", "t", "avro", (), (), wire=WireFormat("prefix"))
SPAN = OffsetRange("t", 0, 0, 3)


@dataclass
class Asked:
    """A source of schemas that finds none (engine.schema_finder.Schemas)."""

    familiar: bool
    changed: tuple[str, ...] = ()
    compared: list[Sequence[SchemaCount]] = field(default_factory=list[Sequence[SchemaCount]])
    registry: str = "default"
    lost: Sequence[str] = ()
    accepts: bool = False

    def generations(self, partition: int) -> Sequence[tuple[int, int]]:  # noqa: ARG002
        return [(0, 1)]

    def find(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:  # noqa: ARG002
        return dict.fromkeys(keys)

    def switched(self) -> RegistrySwitched | None:
        return None

    def switched_since(self, named: Any) -> RegistrySwitched | None:
        self.compared.append(list(named))
        return RegistrySwitched("default", self.changed) if self.changed else None

    def is_familiar(self) -> bool:
        return self.familiar

    def accepting(self) -> "Asked":
        return replace(self, accepts=True)

    def forgotten(self, ranges: Sequence[OffsetRange], named: Iterable[SchemaCount]) -> Sequence[str]:  # noqa: ARG002
        return self.lost


def faults(_: Staged) -> list[FaultGroup]:
    """Return three messages of an unknown schema."""
    return [FaultGroup("decode", "UnknownSchemaId", 3, ({"message": "no registry knows a schema 7"},))]


def staged(*schemas: SchemaCount, **pending: Any) -> Staged:
    coverage = Coverage(SPAN, UUID(int=1), 3, 0, 3, 0, "", None, schemas)
    return Staged(PendingBatch(5, "c", "t", (SPAN,), **pending), 1, {}, (coverage,), "default")


def refuse(schemas: Asked, found: Staged) -> None:
    refuse_unknown(CONTRACT, schemas, faults, found)


def test_a_batch_of_which_no_schema_is_known_asks_whose_registry_it_is() -> None:
    ways_out = r"named by 3 messages of batch 5 .*right registry.*tidegate schema fetch p.*tidegate resolve p --batch"
    with pytest.raises(SchemasNotGiven, match=ways_out):
        refuse(Asked(familiar=False), staged())


def test_a_replay_makes_no_dead_letters_of_what_was_published_by_a_schema() -> None:
    with pytest.raises(BadInput, match=r"registry default: 7, 9\. .*TIDEGATE_REGISTRY_NAME.*tidegate schema fetch p$"):
        refuse(Asked(familiar=True, lost=("7", "9")), staged(SchemaCount(1, "5", 1)))


def test_what_is_not_given_is_accepted_where_a_person_has_decided_about_the_batch() -> None:
    schemas = Asked(familiar=True)
    assert as_decided(schemas, staged().pending) is schemas
    assert as_decided(None, staged(set_aside="garbage").pending) is None
    assert as_decided(schemas, staged(dead_letters_accepted=True).pending) is schemas, "it was about other dead letters"
    for decided in (staged(set_aside="garbage"), staged(without_schemas=True)):
        assert as_decided(schemas, decided.pending) == Asked(familiar=True, accepts=True)


def test_it_is_dead_letters_where_the_registry_is_familiar_or_another_schema_is_known_or_a_person_said_so() -> None:
    refuse(Asked(familiar=True), staged())
    refuse(Asked(familiar=False), staged(SchemaCount(1, "5", 1)))
    refuse(Asked(familiar=False), staged(set_aside="garbage"))
    refuse(Asked(familiar=False), staged(dead_letters_accepted=True))


def test_a_batch_whose_ids_mean_something_else_by_now_is_not_published() -> None:
    named = SchemaCount(1, "5", 1)
    refuse_switched_since(CONTRACT, unchanged := Asked(familiar=True), staged(named))
    assert unchanged.compared == [[named]]
    many = tuple(str(n) for n in range(1, 31))
    with pytest.raises(Halt, match=r"registry_switched|different schemas for ids") as halt:
        refuse_switched_since(CONTRACT, Asked(familiar=True, changed=many), staged(named))
    assert "18, 19, 20, ...)" in str(halt.value)
    assert "Nothing from batch 5 was published" in str(halt.value)


def test_a_batch_that_names_no_schema_asks_no_registry() -> None:
    refuse_switched_since(CONTRACT, registry := Asked(familiar=True), staged())
    assert registry.compared == []
