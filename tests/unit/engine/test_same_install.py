"""Tasks refuse to decode with other code than their run's."""

import platform
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from platform_defs.engine.task import same_install
from platform_defs.errors import OtherInstall

NUMBERS = pa.record_batch([pa.array([1, 2])], names=["id"])


def test_a_task_with_the_same_installation_runs() -> None:
    assert list(same_install.sealed(_twice)(iter([NUMBERS]))) == [NUMBERS, NUMBERS]


def test_a_task_with_another_installation_refuses_before_it_unpickles_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = same_install.sealed(_twice)
    monkeypatch.setattr(same_install, "here", lambda: "0.1.0 (code 00000000)")
    monkeypatch.setattr(same_install.pickle, "loads", _never)
    with pytest.raises(
        OtherInstall, match=rf"on {platform.node()} uses Tidegate 0.1.0 \(code 0+\), but the run uses"
    ) as it:
        list(sent(iter([NUMBERS])))
    assert "Install the same version on that machine" in str(it.value)


def test_the_fingerprint_is_of_the_code_that_decodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_install.resources, "files", lambda _: tmp_path)
    for name in (
        "engine/task/task.py",
        "formats/json/decode.py",
        "cli/main.py",
        "engine/notes.txt",
        "top.py",
        "contract/model/offered_columns.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("first")
    before = _fresh()
    for name in ("cli/main.py", "engine/notes.txt", "top.py"):
        (tmp_path / name).write_text("second")
    assert _fresh() == before
    for name in ("engine/task/task.py", "formats/json/decode.py", "contract/model/offered_columns.py"):
        (tmp_path / name).write_text("second")
        assert _fresh() != before
        (tmp_path / name).write_text("first")
    (tmp_path / "engine/task/task.py").rename(tmp_path / "engine/tasks.py")
    assert _fresh() != before


def _fresh() -> str:
    return same_install.here.__wrapped__()


def _twice(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from (batch, batch)


def _never(_: bytes) -> None:
    raise AssertionError("unpickled by another installation")
