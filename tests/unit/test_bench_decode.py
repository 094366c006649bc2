"""What `python -m bench.decode` measures, and what it prints."""

import pytest

from bench.decode import BLOCK, DESERIALIZER, measure, paths, report


def test_each_path_reads_the_whole_block() -> None:
    measured = paths()  # asserts that JSON and Avro give the same rows
    assert list(measured) == ["JSON, by block", "Avro, by block", DESERIALIZER]
    found = measured[DESERIALIZER]()
    assert isinstance(found, list)
    assert len(found) == BLOCK
    assert found[0]["transfer_id"] == "T0"
    assert measure(measured["Avro, by block"], seconds=0.01) > 0


def test_ratios_are_of_the_same_round(capsys: pytest.CaptureFixture[str]) -> None:
    report({"JSON, by block": [1.0, 2.0], "Avro, by block": [4.0, 6.0], DESERIALIZER: [0.1, 0.1]})
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == [
        "| JSON, by block | 2 | 3.5 (3.0 to 4.0) |",
        "| Avro, by block | 5 | 1.0 (1.0 to 1.0) |",
    ]
