"""`python -m bench.decode`: its measurements and its output."""

import pytest

from bench.decode import AVRO, BLOCK, DESERIALIZER, PROTOBUF, UPB, measure, paths, report


@pytest.mark.long
def test_each_path_reads_the_whole_block() -> None:
    measured = paths()  # asserts that JSON, Avro and Protobuf give the same rows
    assert list(measured) == ["JSON, by block", AVRO, PROTOBUF, DESERIALIZER, UPB]
    found, messages = measured[DESERIALIZER](), measured[UPB]()
    assert isinstance(found, list)
    assert isinstance(messages, list)
    assert len(found) == len(messages) == BLOCK
    assert found[0]["transfer_id"] == messages[0][0] == "T0"
    assert measure(measured[AVRO], seconds=0.01) > 0


def test_ratios_are_of_the_same_round(capsys: pytest.CaptureFixture[str]) -> None:
    report({"JSON, by block": [1.0, 2.0], AVRO: [4.0, 6.0], PROTOBUF: [3.0, 3.0], DESERIALIZER: [0.1, 0.1]})
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == [
        "| JSON, by block | 2 | 3.5 (3.0 to 4.0) | 2.2 (1.5 to 3.0) |",
        "| Avro, by block | 5 | 1.0 (1.0 to 1.0) | 0.6 (0.5 to 0.8) |",
    ]
