"""Wrappers that inject a fault at a moment of publication, or keep a fenced run alive."""

from contextlib import contextmanager

from platform_defs.postgres.connection import connect
from tests.support.world import World


class Meddled:
    """A run's ledger that calls `meddle` before or during publication."""

    def __init__(self, ledger, meddle, when: str = "before_publication") -> None:
        self._ledger, self._meddle, self._when = ledger, meddle, when

    def __getattr__(self, name: str):
        return getattr(self._ledger, name)

    @contextmanager
    def publication(self, staged, **how):
        if self._when == "before_publication":
            self._meddle(staged.staging_id)
        with self._ledger.publication(staged, **how) as transaction:
            if self._when == "in_publication":
                self._meddle(staged.staging_id)
            yield transaction


@contextmanager
def kept_alive(world: World, context):
    """Simulate a first run whose session could not be ended: it reconnects, and only the epoch can stop it."""
    held = context.ledger
    held.connection.close()
    held.connection = connect(world.endpoints.postgres_url, "a zombie under another name")
    yield
