"""The session settings for SQLAlchemy's engines, in Great Expectations and Dagster: the same as for every session.

By a plugin that the URL names, since neither exposes all the engines that it makes:
https://docs.sqlalchemy.org/en/20/core/connections.html#sqlalchemy.engine.CreateEnginePlugin
"""

from contextlib import closing
from typing import Any

from sqlalchemy import URL, event, make_url
from sqlalchemy.dialects import plugins
from sqlalchemy.engine import CreateEnginePlugin, Engine
from typing_extensions import override

from platform_defs.postgres.pooling import require_session_mode
from platform_defs.postgres.session import session_settings, statement

NAME = "tidegate"
SEARCH_PATH = "tidegate_search_path"  # in the URL; not a libpq parameter


def with_sessions(url: str, *, search_path: str | None = None) -> str:
    """Return `url` (SQLAlchemy's, with the limits of `connection.limited`) so that engines have such sessions.

    They raise BadInput behind a pooler that is not in session mode, when they connect.
    """
    query = {"plugin": NAME, **({SEARCH_PATH: search_path} if search_path else {})}
    return make_url(url).update_query_dict(query).render_as_string(hide_password=False)


class Sessions(CreateEnginePlugin):
    """Makes an engine with such a URL prepare each connection when it is opened."""

    def __init__(self, url: URL, kwargs: dict[str, Any]) -> None:
        super().__init__(url, kwargs)
        given = url.query.get(SEARCH_PATH)
        self._more = {"search_path": given} if isinstance(given, str) else {}

    @override
    def update_url(self, url: URL) -> URL:
        return url.difference_update_query([SEARCH_PATH])

    @override
    def engine_created(self, engine: Engine) -> None:
        address = libpq_uri(engine.url)

        def prepare(connection: Any, _record: object) -> None:
            """Prepare `connection` (psycopg 2 or 3) as `connection.connect` does."""
            settings, transactional = session_settings(address, self._more), not connection.autocommit
            connection.autocommit = True
            with closing(connection.cursor()) as cursor:
                cursor.execute(statement(settings, pid=connection.info.backend_pid))
                if cursor.fetchone() is None:
                    require_session_mode(address)
                    cursor.execute(statement(settings))
            connection.autocommit = not transactional

        # First: SQLAlchemy itself begins with a transaction, which a pooler in statement mode would cut short.
        event.listen(engine, "connect", prepare, insert=True)


def libpq_uri(url: URL) -> str:
    """Return an engine's URL for libpq: SQLAlchemy writes a space among the parameters as +, which libpq keeps."""
    address, mark, parameters = url.set(drivername="postgresql").render_as_string(hide_password=False).partition("?")
    return f"{address}{mark}{parameters.replace('+', '%20')}"


plugins.register(NAME, __name__, Sessions.__name__)
