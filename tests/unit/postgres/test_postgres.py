"""The addresses of connections to Postgres, and the settings of their sessions."""

import gc
import weakref
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import make_url

from platform_defs.dagster.storage import ADDRESSES, kept_connections, storage_url
from platform_defs.errors import LedgerAway
from platform_defs.pipelines.drain import ends_with
from platform_defs.postgres.connection import connect, limited, session_url
from platform_defs.postgres.session import session_settings, statement
from platform_defs.postgres.sqlalchemy_sessions import SEARCH_PATH, libpq_uri
from tests.support.kafka.fake_servers import closed_port

URL = "postgresql://user:p%40ss@host:5432/database"


def test_a_database_that_cannot_be_reached_is_reported_with_its_setting_and_promises_no_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"postgresql://user:secret@127.0.0.1:{closed_port()}/database"
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", url)
    with pytest.raises(LedgerAway, match="Connection refused") as away:
        connect(url)
    assert str(away.value).endswith("Check TIDEGATE_POSTGRES_URL; `tidegate doctor` shows what is wrong")
    assert "run" not in str(away.value).partition("TCP/IP")[2]
    failure = ends_with({"a": away.value}, ["a"], spark_ended=False, staying=False)
    assert failure is not None
    assert str(failure.description).endswith("Nothing was published by this attempt; the next run will retry.")


def test_both_ends_of_a_session_give_a_dead_connection_up_after_half_a_minute() -> None:
    address = session_url(URL, "name")
    given, settings = conninfo_to_dict(address), session_settings(address)
    assert (given["tcp_user_timeout"], given["keepalives_idle"], given["connect_timeout"]) == ("30000", "15", "10")
    keepalives = [settings[f"tcp_keepalives_{name}"] for name in ("idle", "interval", "count")]
    assert (settings["tcp_user_timeout"], keepalives) == ("30000", ["15", "5", "3"])


def test_the_url_sets_the_limit_of_both_ends() -> None:
    address = session_url(f"{URL}?tcp_user_timeout=6000&options=-c%20work_mem%3D1MB", "name")
    given, settings = conninfo_to_dict(address), session_settings(address)
    assert (given["tcp_user_timeout"], given["keepalives_idle"], given["keepalives_interval"]) == ("6000", "3", "1")
    assert (settings["tcp_user_timeout"], given["options"]) == ("6000", "-c work_mem=1MB")


def test_a_url_keeps_what_it_says_itself() -> None:
    message = f"{URL}?connect_timeout=3&keepalives_idle=60"
    given = conninfo_to_dict(limited(message))
    assert (given["connect_timeout"], given["keepalives_idle"], given["password"]) == ("3", "60", "p@ss")


def test_a_limit_of_time_that_the_url_names_is_not_set_again() -> None:
    """Postgres takes each of these forms: -c name=value, -cname=value, --name=value."""
    options = "-c%20statement_timeout%3D60s%20-clock_timeout%3D5s%20--idle-session-timeout%3D1h"
    settings = session_settings(session_url(f"{URL}?options={options}", "name"))
    ours = {"idle_in_transaction_session_timeout", "transaction_timeout"}
    assert {name for name in settings if name.endswith("_timeout")} == {*ours, "tcp_user_timeout"}
    answer = session_settings(session_url(f"{URL}?options=-c%20lock_timeout%3D5s%20-cTimeZone%3DAsia/Tokyo", "name"))
    assert session_settings(session_url(URL, "name"), {"lock_timeout": "30s"})["lock_timeout"] == "30s"
    assert answer["TimeZone"] == "UTC"


def test_nothing_is_set_in_another_server_process() -> None:
    message = statement({"TimeZone": "UTC"}, pid=17)
    assert message.endswith(" WHERE pg_backend_pid() = 17")
    assert "WHERE" not in statement({"TimeZone": "UTC"})


def test_an_engine_and_libpq_read_the_same_in_its_address() -> None:
    password, options = "a+b c%/?", "-c statement_timeout=5s -c work_mem=1MB"
    given = f"postgresql://me:{quote(password, safe='')}@db-1:1,db-2:2/shop?options={quote(options)}"
    read = conninfo_to_dict(libpq_uri(make_url(storage_url(given)).difference_update_query(["plugin", SEARCH_PATH])))
    assert (read["user"], read["password"], read["options"]) == ("me", password, options)
    assert (read["host"], read["port"], read["dbname"]) == ("db-1,db-2", "1,2", "shop")


def test_of_dagsters_storage_no_more_addresses_are_kept_than_a_changed_password_needs() -> None:
    """A secret in a file may be another one each time it is read."""
    kept_connections.cache_clear()
    engine = weakref.ref(kept_connections(storage_url(URL)))
    assert kept_connections(storage_url(URL)) is engine()
    for number in range(ADDRESSES):
        kept_connections(storage_url(URL.replace("p%40ss", f"changed{number}")))
    gc.collect()
    assert engine() is None
