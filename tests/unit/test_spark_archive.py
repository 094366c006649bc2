"""Spark's class archive is made once for an environment, whatever a caller's variables tell Java."""

import pytest

from resources.spark.archive import JAVA_OPTIONS, archive


@pytest.mark.parametrize("name", JAVA_OPTIONS)
def test_the_archive_has_one_name_whatever_options_java_is_given(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    plain = archive()
    monkeypatch.setenv(name, "-XX:TieredStopAtLevel=1")
    assert archive() == plain
