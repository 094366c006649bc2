"""Spark's class archive is made once for an environment, whatever options a caller's variables give Java."""

from pathlib import Path

import pytest

from platform_defs.settings.home import MARKER
from platform_defs.spark.archive import JAVA_OPTIONS, archive
from tests.support.commands import run


@pytest.mark.parametrize("name", JAVA_OPTIONS)
def test_the_archive_has_one_name_whatever_options_java_is_given(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    plain = archive()
    monkeypatch.setenv(name, "-XX:TieredStopAtLevel=1")
    assert archive() == plain


@pytest.mark.longest
def test_the_home_that_the_installation_makes_is_marked_as_tidegates(tmp_path: Path) -> None:
    lines = ("from pathlib import Path", "from platform_defs.spark import archive", "import sys")
    home, file = tmp_path / "home", tmp_path / "spark.jsa"
    called = run(
        *lines, "archive._record(Path(sys.argv[1]))", arguments=[str(file)], environment={"TIDEGATE_HOME": str(home)}
    )
    assert called.code == 0, called.stderr
    assert file.exists()
    assert {entry.name for entry in home.iterdir()} == {MARKER, "spark"}
