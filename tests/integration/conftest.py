"""What tests of several files here need."""

import pytest

from resources.postgres import prune_ledger


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prune has small pages, and one batch that is always kept."""
    monkeypatch.setattr(prune_ledger, "NEWEST", 1)
    monkeypatch.setattr(prune_ledger, "PAGE", 3)
