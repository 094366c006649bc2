"""Lineage events that go into a file."""

import json
from pathlib import Path
from typing import Any

from platform_defs.lineage.events import lineage_file


def test_a_file_that_has_become_long_is_kept_until_the_next_one_has(tmp_path: Path) -> None:
    for number in range(4):
        event: Any = {"event": number, "padding": "x" * 20}
        lineage_file(tmp_path, longest=30).emit(event)
    files = {file.name: file.read_text().splitlines() for file in tmp_path.glob("lineage.jsonl*")}
    assert {name: [json.loads(line)["event"] for line in lines] for name, lines in files.items()} == {
        "lineage.jsonl": [3],
        "lineage.jsonl.1": [2],
    }


def test_a_short_file_is_appended_to(tmp_path: Path) -> None:
    for number in range(3):
        event: Any = {"event": number}
        lineage_file(tmp_path).emit(event)
    assert len((tmp_path / "lineage.jsonl").read_text().splitlines()) == 3
