"""The sessions of SQLAlchemy's engines, of Great Expectations and of Dagster, set to what every session of ours is.

By a plugin that the URL names, since neither hands out all the engines that it makes:
https://docs.sqlalchemy.org/en/20/core/connections.html#sqlalchemy.engine.CreateEnginePlugin
"""

from contextlib import closing
from typing import Any

from sqlalchemy import URL, event, make_url
from sqlalchemy.dialects import plugins
from sqlalchemy.engine import CreateEnginePlugin, Engine
from typing_extensions import override

from resources.postgres.session.pooling import require_session_mode
from resources.postgres.session.session import session_settings, statement

NAME = "tidegate"
SEARCH_PATH = "tidegate_search_path"  # in the URL; no parameter of libpq's


def with_sessions(url: str, *, search_path: str | None = None) -> str:
    """`url` (of SQLAlchemy, with the limits of `connection.limited`), by which engines have such sessions.

    They raise BadInput behind a pooler that is not in session mode, when they connect.
    """
    query = {"plugin": NAME, **({SEARCH_PATH: search_path} if search_path else {})}
    return make_url(url).update_query_dict(query).render_as_string(hide_password=False)


class Sessions(CreateEnginePlugin):
    """Makes an engine with such a URL prepare each connection as it is opened."""

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
            _prepare(connection, address, self._more)

        # First: SQLAlchemy itself begins with a transaction, which a pooler in statement mode would cut short.
        event.listen(engine, "connect", prepare, insert=True)


def libpq_uri(url: URL) -> str:
    """An engine's URL as libpq reads it: SQLAlchemy writes a space among the parameters as +, which libpq keeps."""
    address, mark, parameters = url.set(drivername="postgresql").render_as_string(hide_password=False).partition("?")
    return f"{address}{mark}{parameters.replace('+', '%20')}"


def _prepare(connection: Any, address: str, more: dict[str, str]) -> None:
    """`connection` is of psycopg, 2 or 3. As `connection.connect` does."""
    settings, transactional = session_settings(address, more), not connection.autocommit
    connection.autocommit = True
    with closing(connection.cursor()) as cursor:
        cursor.execute(statement(settings, pid=connection.info.backend_pid))
        if cursor.fetchone() is None:
            require_session_mode(address)
            cursor.execute(statement(settings))
    connection.autocommit = not transactional


plugins.register(NAME, __name__, Sessions.__name__)
