"""Tries one address of Kafka like a client: name, TCP, TLS, ApiVersions, SASL, metadata, and the broker's identity."""

import base64
import hashlib
import hmac
import secrets
import ssl
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from platform_defs.doctor.findings.addresses import LISTENER_SETTINGS, Address, Answer, Seen
from platform_defs.doctor.probes.connection import (
    Place,
    connected,
    context_of,
    encrypted,
    resolve,
    trusting,
    unread,
)
from platform_defs.doctor.probes.conversation import Conversation, Stopped


@dataclass(frozen=True)
class Visitor:
    """Visits addresses like a client with librdkafka's `options`; several threads may share it.

    A name lookup may take `seconds`, and so may each connection: a second one is made only if the first was not silent.
    """

    options: Mapping[str, str] = field(repr=False)  # may contain a password
    seconds: float = 3.0

    @property
    def protocol(self) -> str:
        """The client's security.protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return self.options.get("security.protocol", "plaintext").upper()

    def look(self, address: Address) -> Seen:
        """Return the result for `address`. Raises BadInput if the certificates of the options cannot be read."""
        places: Sequence[Place] = ()
        try:
            places = resolve(address, self._deadline())
            return Seen(address, self._ask(address, places), len(places))
        except Stopped as stopped:
            return Seen(address, self._second_look(address, places, stopped).trouble, len(places))

    def _ask(self, address: Address, places: Sequence[Place]) -> Answer:
        if self._encrypts and (names := unread(self.options)):
            with connected(places, self._deadline()):
                raise Stopped("tls_untried", ", ".join(names))
        with self._conversation(address, places, self._context()) as conversation:
            conversation.api_versions()
            if self._logs_in:
                log_in(conversation, self.options)
            return _with_who_answers(conversation, self._metadata(conversation))

    def _metadata(self, conversation: Conversation) -> Answer:
        """Return the metadata. A listener with SASL closes the connection of a client that has not logged in."""
        try:
            return conversation.metadata()
        except Stopped as stopped:
            if stopped.trouble.kind == "closed" and not self._logs_in:
                raise Stopped("wants_login", stopped.trouble.error) from stopped
            raise

    def _second_look(self, address: Address, places: Sequence[Place], first: Stopped) -> Stopped:
        """Return the cause of `first`, from another connection if that can find it. A silent address is not retried."""
        kind, message = first.trouble.kind, first.trouble.error
        if kind == "certificate_name":
            return Stopped(kind, message, self._names(places))
        if kind == "closed" and not self._encrypts and self._answers(address, places, trusting()):
            return Stopped("speaks_tls", message)
        if kind == "tls" and self._answers(address, places, None):
            return Stopped("speaks_plainly", message)
        if kind == "wants_login":
            return self._wants_login(address, places, message)
        return first

    def _names(self, places: Sequence[Place]) -> Sequence[str]:
        """Return the names in the certificate, which is trusted."""
        context = context_of(self.options)
        context.check_hostname = False
        try:
            with connected(places, self._deadline()) as plain, encrypted(plain, context, None, self._deadline()) as way:
                found = way.getpeercert() or {}
        except Stopped:
            return ()
        names = found.get("subjectAltName", ())
        return [str(pair[1]) for pair in names]

    def _answers(self, address: Address, places: Sequence[Place], context: ssl.SSLContext | None) -> bool:
        """Return True if the listener opens TLS with this context, or without one answers a plain request."""
        try:
            with self._conversation(address, places, context) as conversation:
                if context is None:
                    conversation.api_versions()
                return True
        except Stopped:
            return False

    def _wants_login(self, address: Address, places: Sequence[Place], message: str) -> Stopped:
        try:
            with self._conversation(address, places, self._context()) as conversation:
                conversation.api_versions()
                code, offered = conversation.mechanisms("none of them")
        except Stopped:
            return Stopped("closed", message)
        return Stopped("closed", message) if code == NO_SASL_HERE else Stopped("wants_login", message, offered)

    @contextmanager
    def _conversation(
        self, address: Address, places: Sequence[Place], context: ssl.SSLContext | None
    ) -> Generator[Conversation]:
        deadline = self._deadline()
        with connected(places, deadline) as plain:
            if context is None:
                yield Conversation(plain, deadline)
                return
            with encrypted(plain, context, address.host, deadline) as connection:
                yield Conversation(connection, deadline)

    def _context(self) -> ssl.SSLContext | None:
        return context_of(self.options) if self._encrypts else None

    def _deadline(self) -> float:
        return time.monotonic() + self.seconds

    @property
    def _encrypts(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def _logs_in(self) -> bool:
        return self.protocol.startswith("SASL")


def _with_who_answers(conversation: Conversation, found: Answer) -> Answer:
    """Return `found` with the answering broker's number, if known: not every server supports this request."""
    try:
        numbers = [broker.number for broker in found.brokers]
        known = conversation.settings_of_the_one_that_answers(numbers, LISTENER_SETTINGS)
    except Stopped:
        return found
    return found if known is None else replace(found, answering=known[0], settings=known[1])


NO_SASL_HERE = 34  # ILLEGAL_SASL_STATE: the answer of a listener without SASL to SaslHandshake
SCRAM = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MAX_ROUNDS = 1_000_000  # of hashing that a server may request


def log_in(conversation: Conversation, options: Mapping[str, str]) -> None:
    """Log in with librdkafka's `options`. Raises Stopped; `login_untried` for what only librdkafka supports."""
    # The default is GSSAPI; `sasl.mechanism` and `sasl.mechanisms` are the same option.
    mechanism = (options.get("sasl.mechanism") or options.get("sasl.mechanisms") or "GSSAPI").upper()
    code, offered = conversation.mechanisms(mechanism)
    if code == NO_SASL_HERE:
        raise Stopped("no_login_there", f"error {code} to SaslHandshake")
    if code:
        raise Stopped("mechanism", f"error {code} to SaslHandshake", offered)
    if mechanism != "PLAIN" and mechanism not in SCRAM:
        raise Stopped("login_untried", mechanism)
    user, password = options.get("sasl.username", ""), options.get("sasl.password", "")
    if mechanism == "PLAIN":
        conversation.authenticate(f"\0{user}\0{password}".encode())
    else:
        _scram(conversation, SCRAM[mechanism], user, password)


def _scram(conversation: Conversation, algorithm: str, user: str, password: str) -> None:
    nonce = secrets.token_hex(16)
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    challenge = conversation.authenticate(f"n,,{first}".encode()).decode(errors="replace")
    given = dict(part.split("=", 1) for part in challenge.split(",") if "=" in part)
    conversation.authenticate(_proof(algorithm, password, first, challenge, given))


def _proof(algorithm: str, password: str, first: str, challenge: str, given: Mapping[str, str]) -> bytes:
    """Return the client's last message; the server's own proof is left to the real clients."""
    try:
        salt, rounds, nonce = base64.b64decode(given["s"]), int(given["i"]), given["r"]
    except (KeyError, ValueError) as error:
        raise Stopped("not_kafka", f"a SCRAM challenge without {error}") from error
    if not 0 < rounds <= MAX_ROUNDS:
        raise Stopped("not_kafka", f"a SCRAM challenge with {rounds} rounds")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, rounds)
    key = hmac.digest(salted, b"Client Key", algorithm)
    last = f"c=biws,r={nonce}"
    signed = hmac.digest(hashlib.new(algorithm, key).digest(), f"{first},{challenge},{last}".encode(), algorithm)
    proof = base64.b64encode(bytes(one ^ other for one, other in zip(key, signed, strict=True)))
    return f"{last},p=".encode() + proof
