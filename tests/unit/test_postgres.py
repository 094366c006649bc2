"""How connections to Postgres are asked for."""

from psycopg.conninfo import conninfo_to_dict

from resources.postgres.connection import limited, session_url

URL = "postgresql://user:p%40ss@host:5432/database"


def test_both_ends_of_a_session_give_a_dead_connection_up_after_half_a_minute() -> None:
    given = conninfo_to_dict(session_url(URL, "name"))
    assert (given["tcp_user_timeout"], given["keepalives_idle"], given["connect_timeout"]) == ("30000", "15", "10")
    assert "-c tcp_user_timeout=30000" in str(given["options"])
    assert "-c tcp_keepalives_idle=15 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3" in str(given["options"])


def test_the_url_sets_the_limit_of_both_ends() -> None:
    given = conninfo_to_dict(session_url(f"{URL}?tcp_user_timeout=6000&options=-c%20work_mem%3D1MB", "name"))
    assert (given["tcp_user_timeout"], given["keepalives_idle"], given["keepalives_interval"]) == ("6000", "3", "1")
    assert "-c tcp_user_timeout=6000" in str(given["options"])
    assert "-c work_mem=1MB" in str(given["options"])


def test_a_url_keeps_what_it_says_itself() -> None:
    said = f"{URL}?connect_timeout=3&keepalives_idle=60"
    given = conninfo_to_dict(limited(said))
    assert (given["connect_timeout"], given["keepalives_idle"], given["password"]) == ("3", "60", "p@ss")
