"""A cut of the publishing connection to Postgres at its commit; the proxy itself is bench/producers/proxy.py."""

from typing import Literal
from urllib.parse import urlsplit

from bench.producers.proxy import PIECE, Fault, Link, Proxy, Rule

__all__ = ["PIECE", "CommitCutter", "Fault", "Link", "Proxy", "Rule", "commit_cutter"]

LAST_BEFORE_COMMIT = (  # as platform_defs/engine/commit/publish_statements.py sends it in the publishing transaction
    b"SET CONSTRAINTS ALL IMMEDIATE"
)
COMMIT = b"COMMIT\0"  # the statement itself, as the protocol ends it: comments elsewhere contain COMMIT too
When = Literal["before", "after"]


def commit_cutter(when: When, *, then_away: bool = False) -> Rule:
    """Cut the publishing connection once, at its COMMIT: before it reaches Postgres, or after Postgres has done it.

    With `then_away`, let no connection through from then on.
    """
    publishing: set[Link] = set()
    fired: list[Link] = []

    def rule(link: Link, data: bytes, sent: bool) -> Fault | None:
        if fired:
            return "cut" if then_away else None
        if sent and link in publishing and COMMIT in data:
            publishing.discard(link)
            fired.append(link)
            if when == "after":
                link.server.sendall(data)
                link.server.recv(PIECE)  # Postgres has responded; no client receives it
            return "cut"
        if sent and LAST_BEFORE_COMMIT in data:
            publishing.add(link)
        return None

    return rule


class CommitCutter(Proxy):
    """A proxy in front of the Postgres at `url` that cuts its publishing connection once (`commit_cutter`)."""

    def __init__(self, url: str, when: When, *, then_away: bool = False) -> None:
        given = urlsplit(url)
        super().__init__(given.hostname or "", given.port or 5432, commit_cutter(when, then_away=then_away))
        self.url = self.lead(url)
