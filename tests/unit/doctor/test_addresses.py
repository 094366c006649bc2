"""Addresses with passwords: which are accepted, which are refused, and that no password is shown."""

import dataclasses
import importlib
import pkgutil
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

import platform_defs
import resources
from platform_defs.cli.output import Output
from platform_defs.errors import BadInput
from platform_defs.postgres.connection import session_uri, session_url
from platform_defs.settings.postgres_address import masked
from platform_defs.settings.settings import Settings, settings
from platform_defs.stack import stack
from platform_defs.stack.cli import stack as cli
from platform_defs.stack.endpoints import Endpoints

pytestmark = pytest.mark.usefixtures("no_variables")
PIECE = "Hu7xQ"  # a part of a password
HARMLESS = {  # none of these belongs to a client
    "platform_defs.contract.keys.contract_keys.TypeEntry.options",
    "platform_defs.producer_options.config.Chosen.options",
    "platform_defs.producer_options.config.Producing.options",
    "platform_defs.producer_options.presets.Preset.options",
    "platform_defs.stack.dagster_dev.UiStatus.url",
}


def test_the_password_is_not_shown_when_endpoints_are_printed() -> None:
    assert "hush" not in repr(Endpoints("postgresql://me:hush@db/shop", "b:9092", {"sasl.password": "hush"}))


def test_a_registry_of_ones_own_is_shown_without_its_password(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_REGISTRY_URL", "https://me:hush@one:8081, https://two:8081")
    status = stack.status()
    assert status.as_json()["registry"] == {"url": "https://one:8081, https://two:8081", "pid": None, "embedded": False}
    assert status.registry.address == "https://me:hush@one:8081, https://two:8081"


_SPECIAL = "/?#@:%&=[] ,;+'\\\"äx"


@given(password=st.text("abc1" + _SPECIAL, min_size=1), user=st.text("ab" + _SPECIAL, min_size=1))
def test_an_encoded_password_is_read_as_it_is_by_every_client(password: str, user: str) -> None:
    url = f"postgresql://{quote(user, safe='')}:{quote(password, safe='')}@db.example.com:5432/shop?sslmode=require"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_POSTGRES_URL", url)
        given_url = settings().postgres_url or ""
    for spelt in (given_url, session_url(given_url, "t"), session_uri(given_url, "t")):
        read = conninfo_to_dict(spelt)
        assert (read["user"], read["password"], read["dbname"]) == (user, password, "shop")
    assert masked(given_url) == f"postgresql://{quote(user, safe='')}:***@db.example.com:5432/shop?sslmode=require"


@given(parts=st.lists(st.sampled_from(_SPECIAL), min_size=1, max_size=4))
def test_a_password_that_is_not_encoded_is_refused_without_a_piece_of_it(parts: list[str]) -> None:
    password = "".join(f"{PIECE}{one}" for one in parts) + PIECE
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_POSTGRES_URL", f"postgresql://me:{password}@db:5432/shop")
        try:
            read = conninfo_to_dict(session_url(settings().postgres_url or "", "t"))
        except BadInput as refused:
            message = "".join(traceback.format_exception(refused))
            assert PIECE not in message
            assert "TIDEGATE_POSTGRES_URL" in message
        else:
            assert (read["password"], read["dbname"], read["host"]) == (password, "shop", "db")


@pytest.mark.parametrize(
    "query", ["password=a&b", "password=a=b", f"password={PIECE}&{PIECE}", "password=%zz", "pass word=x", f"{PIECE}"]
)
def test_parameters_that_libpq_would_quote_are_refused(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", f"postgresql://me@db/shop?{query}")
    with pytest.raises(BadInput) as refused:
        settings()
    assert PIECE not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://",
        "postgresql:///shop",
        "postgresql://db",
        "postgresql://me@db:/shop",
        "postgresql://me:p@[::1]:5432,db-2:5433,%2Fvar%2Frun/shop?sslmode=verify-full&target_session_attrs=read-write",
        "postgresql:///shop?host=/var/run/postgresql&user=me&",
        "postgresql://me@db/shop?options=-c%20search_path%3Dx",
    ],
)
def test_what_libpq_takes_is_taken(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", url)
    assert settings().postgres_url == url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://me:{PIECE}@db/shop", "postgresql://me:***@db/shop"),
        (f"postgresql://me:a/{PIECE}@b?{PIECE}#{PIECE}@db/shop", "***"),
        (f"postgresql://db/shop?user=me&password={PIECE}", "postgresql://db/shop?user=me&password=***"),
        (
            f"postgresql://db/shop?sslpassword={PIECE}&sslmode=require&PASSWORD={PIECE}",
            "postgresql://db/shop?sslpassword=***&sslmode=require&PASSWORD=***",
        ),
        ("postgresql://me@db/shop", "postgresql://me@db/shop"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_the_status_of_ones_own_database_hides_its_password_in_both_forms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"postgresql://me:{PIECE}@db/shop?sslpassword={PIECE}"
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", url)
    for output in Output:
        cli.status(show_password=False, output=output)
        assert PIECE not in capsys.readouterr().out
        cli.status(show_password=True, output=output)
        assert url in capsys.readouterr().out


def _dataclasses() -> Iterator[type]:
    for package in (platform_defs, resources):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name not in ("platform_defs.engine.daemon",):
                module = importlib.import_module(found.name)
                yield from (
                    one
                    for one in vars(module).values()
                    if isinstance(one, type) and dataclasses.is_dataclass(one) and one.__module__ == found.name
                )


def test_nothing_that_holds_an_address_or_a_clients_options_prints_them() -> None:
    """No printed object (in a traceback, a log or a debugger) contains a password."""
    shown = {
        f"{one.__module__}.{one.__name__}.{field.name}"
        for one in _dataclasses()
        for field in dataclasses.fields(one)
        if field.repr and field.name in ("url", "postgres_url", "ledger_url", "options", "librdkafka", "conninfo")
    }
    assert shown == HARMLESS
    assert PIECE not in repr(Settings(postgres_url=f"postgresql://me:{PIECE}@db", registry_url=f"http://u:{PIECE}@r"))


@pytest.mark.parametrize(
    "password", [f"{PIECE}/{PIECE}", f"1/{PIECE}", f"{PIECE}@{PIECE}", f"{PIECE}#{PIECE}", f"{PIECE},x"]
)
def test_a_registrys_password_that_is_not_encoded_is_refused_unseen(
    password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_REGISTRY_URL", f"https://me:{password}@registry:8081")
    with pytest.raises(BadInput, match="TIDEGATE_REGISTRY_URL") as refused:
        settings()
    assert PIECE not in "".join(traceback.format_exception(refused.value))
