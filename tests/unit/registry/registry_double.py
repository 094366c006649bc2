"""A server in place of a registry, for answers that no real registry can be made to give."""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from platform_defs.settings.registry_address import Pace

ONCE = Pace(pause=60.0)  # longer than any test's patience: nothing is requested twice, so a refusal is known at once


@dataclass
class Answered:
    """The server's answers, by path (without its query), and the requests to it."""

    url: str = ""
    answers: dict[str, "Answer"] = field(default_factory=dict[str, "Answer"])
    otherwise: "Answer | None" = None  # on every other path; None: the registry's error for an unknown schema
    posts: dict[str, "Answer"] = field(default_factory=dict[str, "Answer"])  # to POST
    puts: dict[str, "Answer"] = field(default_factory=dict[str, "Answer"])  # to PUT
    asked: list[str] = field(default_factory=list[str])
    authorization: list[str | None] = field(default_factory=list[str | None])
    registered: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    released: threading.Event = field(default_factory=threading.Event)


Answer = Callable[[BaseHTTPRequestHandler, Answered], None]


def says(
    body: Any, status: int = 200, *, kind: str = "application/json", headers: Mapping[str, str] | None = None
) -> Answer:
    """Return an answer of JSON, or of any bytes."""
    written = body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(handler: BaseHTTPRequestHandler, _: Answered) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(written)))
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(written)

    return answer


def refuses(status: int, code: int | None = None) -> Answer:
    """Return the registry's own answer for an error."""
    return says({"error_code": code or status, "message": "no"}, status)


def half(handler: BaseHTTPRequestHandler, _: Answered) -> None:
    """Send an answer that ends too early."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"schema": "')
    handler.close_connection = True


def hangs(handler: BaseHTTPRequestHandler, answered: Answered) -> None:
    """Send no answer; close the connection once the test is over, so that nobody waits for it in the next one."""
    answered.released.wait()
    handler.close_connection = True


def hangs_up(handler: BaseHTTPRequestHandler, _: Answered) -> None:
    """Close the connection at once, without an answer."""
    handler.close_connection = True


def drips(handler: BaseHTTPRequestHandler, answered: Answered) -> None:
    """Send a byte now and then, until the test is over."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while not answered.released.wait(0.05):
            handler.wfile.write(b" ")
            handler.wfile.flush()
    handler.close_connection = True


def floods(handler: BaseHTTPRequestHandler, answered: Answered) -> None:
    """Send as much as the other side takes, until the test is over."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while not answered.released.is_set():
            handler.wfile.write(b" " * 1_000_000)
    handler.close_connection = True


def after(seconds: float, then: Answer) -> Answer:
    """Return an answer that takes its time."""

    def answer(handler: BaseHTTPRequestHandler, answered: Answered) -> None:
        answered.released.wait(seconds)
        then(handler, answered)

    return answer


@contextmanager
def registry_double() -> Iterator[Answered]:
    """Yield a server on this machine; a path without an answer is a 404 of the registry's."""
    answered = Answered()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            answered.asked.append(self.path)
            answered.authorization.append(_credentials(self.headers.get("Authorization")))
            answered.answers.get(path, answered.otherwise or refuses(404, 40403))(self, answered)

        def do_POST(self) -> None:
            """Register a schema with the number of schemas as its id, unless another answer is given."""
            written = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if other := answered.posts.get(self.path.partition("?")[0]):
                other(self, answered)
                return
            answered.registered.append(written)
            number = len(answered.registered)
            answered.answers[f"/schemas/ids/{number}"] = says(written)
            says({"id": number})(self, answered)

        def do_PUT(self) -> None:
            """Set the compatibility level of a subject, unless another answer is given."""
            written = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not (other := answered.puts.get(self.path)):
                answered.answers[self.path] = says({"compatibilityLevel": written["compatibility"]})
            (other or says(written))(self, answered)

        def do_DELETE(self) -> None:
            """Remove the subject's own compatibility level."""
            answered.answers[self.path] = refuses(404, 40408)
            says({"compatibility": "BACKWARD"})(self, answered)

        def log_message(self, format: str, *args: Any) -> None:
            """Write nothing to stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    answered.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield answered
    finally:
        answered.released.set()
        server.shutdown()
        server.server_close()


def _credentials(header: str | None) -> str | None:
    if header is None or not header.startswith("Basic "):
        return header
    return base64.b64decode(header.removeprefix("Basic ")).decode()
