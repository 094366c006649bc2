"""The libraries' own logs, even with every message logged, contain no password."""

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from openlineage.client import OpenLineageClient
from requests import HTTPError

from platform_defs.errors import RegistryAway
from resources.lineage import events
from resources.registry.address import Registry
from resources.registry.client import RegistryClient
from resources.spark import session


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("content-length", "0")
        self.end_headers()

    do_POST = do_GET  # the base class's name

    def log_message(self, format: str, *_: object) -> None:  # the base class's name
        """Write nothing to stderr."""


@pytest.fixture
def address() -> Iterator[str]:
    """Yield the address, with a password, of a server that refuses everything."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://me:s3cret@127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_the_registrys_client_logs_no_password(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(RegistryAway):
        RegistryClient(Registry({"url": address}, patience=0.1)).schema("5")
    assert "s3cret" not in caplog.text


def test_the_client_of_lineage_logs_no_password(
    address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert events.PRODUCER  # imported
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENLINEAGE_URL", address)
    with pytest.raises(HTTPError):
        OpenLineageClient().transport.emit({"a": 1})  # type: ignore[arg-type]  # as resources/lineage/events.py
    assert "s3cret" not in caplog.text


def test_what_goes_to_the_jvm_and_comes_from_it_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert session.SECRET  # imported
    caplog.set_level(logging.DEBUG)
    for name in ("py4j.clientserver", "py4j.java_gateway"):
        assert not logging.getLogger(name).isEnabledFor(logging.DEBUG)
