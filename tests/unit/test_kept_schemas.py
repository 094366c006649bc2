"""What a process remembers has an end."""

from platform_defs.formats.writer_schema import WriterSchema
from resources.registry.kept import KeptSchemas, Lately


def test_schemas_are_kept_up_to_so_many_bytes_and_the_least_used_goes_first() -> None:
    kept = KeptSchemas(100)
    for key in "abc":
        kept.keep(("", "", 1, key), WriterSchema(key, "avro", "x" * 30, (("", "x" * 3),)))
    assert kept.get(("", "", 1, "a")) is not None
    kept.keep(("", "", 1, "d"), WriterSchema("d", "avro", "x" * 30))
    assert [key for key in "abcd" if kept.get(("", "", 1, key))] == ["a", "c", "d"]
    kept.keep(("", "", 1, "e"), WriterSchema("e", "avro", "x" * 1_000))
    assert [key for key in "abcde" if kept.get(("", "", 1, key))] == ["e"], "one is kept however large it is"


def test_lately_forgets() -> None:
    lately = Lately()
    lately.note("a")
    assert lately.has("a")
    assert not lately.has("b")
    for number in range(5_000):
        lately.note(number)
    assert lately.has(4_999)
    assert len(lately._at) <= 1_000
