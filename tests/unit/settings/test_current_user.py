"""The user's name comes from the operating system, not from a variable that anybody can set."""

import os

import pytest

from platform_defs.settings.current_user import current_user
from platform_defs.settings.settings import PROJECT_ROOT


def test_a_variable_names_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    before = current_user()
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert current_user() == before


def test_a_user_without_a_name_is_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 1_000_650_000)  # as OpenShift gives them, with no entry in /etc/passwd
    assert current_user() == "uid 1000650000"


def test_whoever_uses_sudo_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "alice")
    assert current_user().endswith(" (sudo by alice)")


def test_no_command_asks_a_variable() -> None:
    sources = [
        path
        for package in ("tidegate", "platform_defs", "resources")
        for path in (PROJECT_ROOT / package).rglob("*.py")
    ]
    assert [path for path in sources if "import getpass" in path.read_text()] == []
