"""Dagster's definitions load quickly: they import what describes the pipelines, not what a run or a tick uses."""

import shutil
from pathlib import Path

import pytest

from platform_defs.settings.settings import PROJECT_ROOT
from tests.support.commands import run

pytestmark = pytest.mark.long

ENGINE = {"pyspark", "pyarrow", "numpy", "pandas", "great_expectations", "orjson", "pgpq", "google"}
POSTGRES = {"psycopg", "sqlalchemy", "dagster_postgres", "alembic", "adbc_driver_postgresql"}
OTHERS = {"fastavro", "duckdb", "kafka", "openlineage", "requests"}


def test_definitions_without_a_transform_import_no_engine_and_no_client_of_postgres(tmp_path: Path) -> None:
    for path in (PROJECT_ROOT / "assets").rglob("*.odcs.yaml"):
        if not path.with_name(f"{path.name.removesuffix('.odcs.yaml')}.py").exists():
            shutil.copytree(path.parent, tmp_path / "assets" / path.parent.name)
    loaded = run(
        "import tidegate", f"defs = tidegate.definitions({str(tmp_path / 'assets')!r})", "print(len(defs.jobs))"
    )
    assert loaded.code == 0, loaded.stderr
    assert int(loaded.stdout) >= 3
    assert loaded.packages.isdisjoint(ENGINE | POSTGRES | OTHERS)
