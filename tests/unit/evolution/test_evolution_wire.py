"""Changes to how messages name their schemas, and what follows for messages that are sent."""

from dataclasses import replace

import pytest

from platform_defs.contract.evolution.changes import ChangeClass
from platform_defs.contract.evolution.plan import plan
from platform_defs.contract.model.contract import OtherRecords, WireFormat
from platform_defs.contract.odcs_writer import contract_digest
from tests.unit.evolution.test_evolution import FREE, PRODUCERS, REPLAY, WORDS, good

OTHER_RECORDS: tuple[OtherRecords, ...] = ("dead_letter", "skip")


@pytest.mark.parametrize(
    ("old", "new", "classes"),
    [
        ({"framing": "prefix"}, {"framing": "both"}, [FREE]),
        ({"framing": "both"}, {"framing": "header"}, [PRODUCERS]),
        ({"record": ""}, {"record": "shop.Order"}, [PRODUCERS]),
        ({"record": "shop.Order"}, {"record": ""}, [PRODUCERS]),
        ({"other_records": "dead_letter"}, {"other_records": "skip"}, [PRODUCERS]),
        ({"other_records": "skip"}, {"other_records": "dead_letter"}, [PRODUCERS]),
        ({"key_format": "text"}, {"key_format": "avro"}, [FREE]),
        ({"schema_text": "one"}, {"schema_text": "other"}, [PRODUCERS]),
        ({"subject": "one"}, {"subject": "other"}, [WORDS]),
        ({"subject": ":.bank:one"}, {"subject": ":.bank:other"}, [WORDS]),
        ({"subject": "one"}, {"subject": ":.bank:one"}, [PRODUCERS]),
        ({"framing": "none", "subject": ""}, {"framing": "prefix", "subject": ":.bank:one"}, [PRODUCERS, WORDS]),
        ({"compatibility": "FULL"}, {"compatibility": "NONE"}, [WORDS]),
    ],
)
def test_how_messages_name_their_schema(old: dict[str, str], new: dict[str, str], classes: list[ChangeClass]) -> None:
    contract = replace(good(), format="avro")
    before, after = (replace(contract, wire=WireFormat(**each)) for each in (old, new))  # type: ignore[arg-type]
    assert [change.kind for change in plan(before, after).changes] == classes


def test_what_becomes_of_messages_of_other_records_is_said_in_each_direction() -> None:
    letters, skipped = (replace(good(), format="avro", wire=WireFormat(other_records=o)) for o in OTHER_RECORDS)
    assert "no longer become dead letter" in plan(letters, skipped).changes[0].sentence
    assert "become dead letters" in plan(skipped, letters).changes[0].sentence


def test_other_keys_of_an_upsert_need_a_replay_whatever_its_format_was() -> None:
    table = replace(good().row_table, disposition="upsert")
    before = replace(good(), tables=(table,))
    after = replace(before, format="avro", wire=WireFormat(key_format="avro"))
    found = plan(before, after)
    assert [change.kind for change in found.changes] == [PRODUCERS, REPLAY]
    assert [change.what for change in found.found_otherwise] == ["keyFormat text -> avro"]


def test_what_decides_the_rows_has_the_context_of_a_subject_and_not_its_name() -> None:
    plain, other, elsewhere = (
        contract_digest(replace(good(), format="avro", wire=WireFormat(subject=subject)))
        for subject in ("a", "b", ":.bank:a")
    )
    assert plain == other
    assert plain != elsewhere
