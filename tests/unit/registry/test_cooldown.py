"""A process's notes about registries end, and are limited in number."""

import time

import pytest

from platform_defs.registry.cooldown import RECENT, Cooldown


def test_lately_forgets_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    lately, noted = Cooldown(), time.monotonic()
    lately.note("a")
    for seconds, still in ((0, True), (RECENT - 1, True), (RECENT + 1, False)):
        monkeypatch.setattr(time, "monotonic", lambda at=noted + seconds: at)
        assert lately.has("a") is still
    assert not lately.has("b")


def test_lately_holds_only_so_much() -> None:
    lately = Cooldown()
    for number in range(5_000):
        lately.note(number)
    assert lately.has(4_999)
    assert sum(lately.has(number) for number in range(5_000)) <= 1_000
