"""The password separate from the URL, as in libpq, for each of the drivers: their own copies of libpq read it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import psycopg2
import pytest
import sqlalchemy

from platform_defs.stack.endpoints import Endpoints

DRIVERS: Mapping[str, Callable[[str], object]] = {
    "psycopg": psycopg.connect,
    "psycopg2": psycopg2.connect,
    "adbc": adbc.connect,
}


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_password_may_come_from_the_environment_or_from_a_password_file(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: str
) -> None:
    url = sqlalchemy.make_url(endpoints.postgres_url)
    without, connect = url._replace(password=None).render_as_string(), DRIVERS[driver]
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with pytest.raises(Exception, match="no password supplied"):
        connect(without)
    with monkeypatch.context() as given:
        given.setenv("PGPASSWORD", str(url.password))
        assert connect(without)
    (tmp_path / "pgpass").write_text(f"*:*:*:*:{url.password}\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    assert connect(without)
