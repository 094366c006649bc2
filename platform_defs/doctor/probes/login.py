"""SASL logins for `tidegate doctor`: PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677)."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping

from platform_defs.doctor.probes.conversation import Conversation, Stopped

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
