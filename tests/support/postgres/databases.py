"""Empty databases on the tests' own server."""

from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg


@contextmanager
def new_database(url: str, options: str = "") -> Generator[str]:
    """Create an empty database on the server of `url`, with `options` of CREATE DATABASE; yield its URL, and drop it at
    the end.
    """
    name = f"fresh_{uuid4().hex[:10]}"
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name} {options}".encode())
        try:
            yield urlsplit(url)._replace(path=f"/{name}").geturl()
        finally:
            session.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
