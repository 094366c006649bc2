"""A contract's formats and schemas: the keys that are read, and those that are mutually exclusive."""

from functools import partial
from pathlib import Path

import pytest

from platform_defs.contract.model.contract import UNFRAMED, Contract, WireFormat
from platform_defs.contract.odcs_writer import contract_digest, stored_file, stored_schema, text
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput
from tests.unit.contract.contract_mistakes import GOOD


def contract(folder: Path, kind: str, *properties: str, field: str = "") -> Contract:
    """Return the good contract in this format, with custom properties of its server and of the field `kind`."""
    given = ", ".join(f"{{property: {one}}}" for one in properties)
    text = GOOD.replace("format: json}", f"format: {kind}, customProperties: [{given}]}}")
    path = folder / "orders.odcs.yaml"
    path.write_text(text.replace("name: kind\n", f"name: kind\n{field}", 1), encoding="utf-8")
    return load(path)


def field(*properties: str) -> str:
    given = ", ".join(f"{{property: {one}}}" for one in properties)
    return f"        customProperties: [{given}]\n"


def test_bare_json_names_no_schema(tmp_path: Path) -> None:
    assert contract(tmp_path, "json").wire == UNFRAMED
    assert not UNFRAMED.framed


def test_what_readers_are_told_of_a_server_of_bare_json_is_not_read(tmp_path: Path) -> None:
    message = contract(tmp_path, "json", "team, value: [payments]", "subject, value: 7", "team, value: twice")
    assert message.wire == UNFRAMED


def test_avro_and_protobuf_are_framed_by_a_prefix_under_the_topics_subject(tmp_path: Path) -> None:
    avro, protobuf = contract(tmp_path, "avro"), contract(tmp_path, "protobuf")
    assert (avro.format, avro.wire) == (
        "avro",
        WireFormat("prefix", "shop.orders-value", compatibility="FULL_TRANSITIVE"),
    )
    assert protobuf.wire.compatibility == "BACKWARD_TRANSITIVE"
    assert avro.wire.framed


def test_everything_that_is_said_of_schemas_is_read(tmp_path: Path) -> None:
    message = (
        "framing, value: both",
        "subject, value: orders",
        "record, value: shop.Order",
        "otherRecords, value: skip",
    )
    assert contract(
        tmp_path, "avro", *message, "keyFormat, value: avro", "compatibility, value: FULL"
    ).wire == WireFormat("both", "orders", "shop.Order", "avro", "skip", "FULL")
    framed = contract(tmp_path, "json", "framing, value: header", "keyFormat, value: json")
    assert framed.wire == WireFormat("header", "shop.orders-value", key_format="json", compatibility="NONE")


@pytest.mark.parametrize(
    ("properties", "subject", "naming", "keys"),
    [
        ((), "shop.orders-value", "TopicNameStrategy", "shop.orders-key"),
        (
            ("subjectNameStrategy, value: TopicNameStrategy",),
            "shop.orders-value",
            "TopicNameStrategy",
            "shop.orders-key",
        ),
        (("subjectNameStrategy, value: RecordNameStrategy",), "shop.Order", "RecordNameStrategy", "shop.orders-key"),
        (
            ("subjectNameStrategy, value: TopicRecordNameStrategy",),
            "shop.orders-shop.Order",
            "TopicRecordNameStrategy",
            "shop.orders-key",
        ),
        (("subject, value: shop.Order",), "shop.Order", "RecordNameStrategy", "shop.Order-key"),
        (("subject, value: other",), "other", None, "other-key"),
    ],
)
def test_a_subject_is_named_by_a_strategy_or_by_itself(
    tmp_path: Path, properties: tuple[str, ...], subject: str, naming: str | None, keys: str
) -> None:
    made = contract(tmp_path, "avro", "record, value: shop.Order", "keyFormat, value: avro", *properties)
    assert (made.wire.subject, made.subject_name_strategy, made.key_subject) == (subject, naming, keys)
    assert load(tmp_path / "kept.odcs.yaml", text(made)).wire == made.wire


def test_a_subject_by_the_record_needs_its_name_and_no_other_subject(tmp_path: Path) -> None:
    strategy = "subjectNameStrategy, value: RecordNameStrategy"
    with pytest.raises(BadInput, match="needs the record's full name: set record"):
        contract(tmp_path, "avro", strategy)
    with pytest.raises(BadInput, match="are mutually exclusive"):
        contract(tmp_path, "avro", strategy, "record, value: shop.Order", "subject, value: other")
    with pytest.raises(BadInput, match="did you mean 'RecordNameStrategy'"):
        contract(tmp_path, "avro", "subjectNameStrategy, value: RecordName", "record, value: shop.Order")


def test_the_schema_of_unframed_messages_is_part_of_the_contract(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text('"string"')
    read = contract(tmp_path, "avro", "framing, value: none", "schemaFile, value: order.avsc")
    assert read.wire == WireFormat("none", schema_file="order.avsc", schema_text='"string"')


MAIN = """\
syntax = "proto3"; // import "no/comment.proto";
import public 'imp/common.proto';
/* import "no/block.proto"; */ import "google/protobuf/timestamp.proto";
option java_package = "import \\"no/text.proto\\"";
message M { string import = 1; imp.Attr a = 2; }
"""


def test_a_schema_file_is_read_with_the_files_that_it_imports(tmp_path: Path) -> None:
    files = {"imp/common.proto": 'import "imp/deep.proto";', "imp/deep.proto": 'import "imp/common.proto";'}
    (tmp_path / "imp").mkdir()
    for name, content in {"order.proto": MAIN, **files}.items():
        (tmp_path / name).write_text(content)
    properties = ("framing, value: none", "schemaFile, value: order.proto")
    read = contract(tmp_path, "protobuf", *properties)
    assert dict(read.wire.schema_imports) == files
    again = load(tmp_path / "kept.odcs.yaml", text(read), partial(stored_file, stored_schema(read)))
    assert (again.wire, contract_digest(again)) == (read.wire, contract_digest(read))
    (tmp_path / "imp/deep.proto").write_text("")
    assert contract_digest(contract(tmp_path, "protobuf", *properties)) != contract_digest(read)
    for wanted, message in (
        ("imp/none.proto", "'imp/none.proto' of schemaFile, a path in the contract's folder, cannot be read: No such"),
        ("../common.proto", "is outside the contract's folder"),
    ):
        (tmp_path / "imp/deep.proto").write_text(f'import "{wanted}";')
        with pytest.raises(BadInput, match=message) as refused:
            contract(tmp_path, "protobuf", *properties)
        assert refused.value.line == 7


def test_a_field_has_other_names_and_a_number(tmp_path: Path) -> None:
    found = contract(tmp_path, "protobuf", field=field(r"aliases, value: [sort, 'a\.b.c']", "fieldNumber, value: 7"))
    assert (found.fields[1].aliases, found.fields[1].number) == ((("sort",), ("a.b", "c")), 7)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("aliases, value: [order_id]", "kind and order_id have the same name in the message, order_id"),
        ("aliases, value: []", "a list of names"),
        ("aliases, value: sort", "a list of names"),
        ("aliases, value: [1]", "1 is not text"),
        ("aliases, value: [a..b]", "not a path of keys"),
        ("fieldNumber, value: 0", "from 1 to 536870911"),
        ("fieldNumber, value: true", "from 1 to 536870911"),
        ("fieldNumber, value: 19000", "which Protobuf reserves"),
    ],
)
def test_names_that_cannot_be_read_are_refused(tmp_path: Path, given: str, message: str) -> None:
    with pytest.raises(BadInput, match=message) as refused:
        contract(tmp_path, "protobuf", field=field(given))
    assert refused.value.line is not None
    assert "kind" in (refused.value.field or "")


SORT = f"""\
        logicalType: string
{field("fieldNumber, value: 7")}
      - name: sort
        physicalName: PATH
{field("fieldNumber, value: 7")}"""


def test_a_number_belongs_to_one_field_of_a_message(tmp_path: Path) -> None:
    nested = contract(tmp_path, "protobuf", field=SORT.replace("PATH", "in.sort"))
    assert [item.number for item in nested.fields][1:3] == [7, 7]
    with pytest.raises(BadInput, match="sort and kind have the same fieldNumber, 7"):
        contract(tmp_path, "protobuf", field=SORT.replace("PATH", "sort"))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff", "can't decode"), (b" " * (4 << 20) + b"1", "4,194,305 bytes, and the maximum is 4,194,304")],
)
def test_a_schema_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "order.avsc").write_bytes(content)
    with pytest.raises(BadInput, match=message):
        contract(tmp_path, "avro", "framing, value: none", "schemaFile, value: order.avsc")
