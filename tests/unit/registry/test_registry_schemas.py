"""The generation of a registry's ids, by offset, and their context."""

from platform_defs.contract.odcs_writer import context_of
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.ledger.schema_ledger import Generation, schema_digest
from platform_defs.registry.schemas import generations_of


def generations(*opened: Generation, partition: int = 0, topic_id: str | None = "now") -> list[tuple[int, int]]:
    return generations_of(opened, topic_id, partition)


def test_a_pipeline_begins_in_the_generation_in_which_the_registry_was() -> None:
    assert generations() == [(0, 1)]
    assert generations(Generation(3, None, {})) == [(0, 3)]


def test_a_generation_begins_at_the_positions_at_which_it_was_opened() -> None:
    first, second = Generation(1, None, {}), Generation(2, "now", {0: 12, 1: 0})
    assert generations(first, second) == [(0, 1), (12, 2)]
    assert generations(first, second, partition=1) == [(0, 2)]
    assert generations(first, second, partition=2) == [(0, 2)], "a partition that was added later"


def test_in_a_log_that_was_created_since_only_the_newest_generation_counts() -> None:
    opened = Generation(1, None, {}), Generation(2, "before", {0: 12}), Generation(4, "now", {0: 5})
    assert generations(*opened) == [(0, 2), (5, 4)]
    assert generations(*opened, topic_id="later") == [(0, 4)]
    assert generations(*opened, topic_id=None) == [(0, 4)]


def test_ids_are_of_the_context_of_the_subject() -> None:
    assert [context_of(subject) for subject in ("t-value", ":.bank:t", ":.:t", ":.bank", ":x:y", "")] == [
        "",
        ":.bank:",
        ":.:",
        "",
        "",
        "",
    ]


def test_a_schema_is_the_same_whatever_its_id() -> None:
    one = WriterSchema("7", "avro", "a", (("r", "b"),))
    assert schema_digest(one) == schema_digest(WriterSchema("8", "avro", "a", (("r", "b"),), encrypted=True))
    others = [
        WriterSchema("7", "json", "a", (("r", "b"),)),
        WriterSchema("7", "avro", "a"),
        WriterSchema("7", "avro", "c", (("r", "b"),)),
    ]
    assert schema_digest(one) not in {schema_digest(other) for other in others}
