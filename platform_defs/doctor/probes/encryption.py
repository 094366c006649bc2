"""TLS for `tidegate doctor`, from librdkafka's options: those that name files, and those that switch checks off."""

import ssl
from collections.abc import Mapping
from pathlib import Path

from platform_defs.errors import BadInput

# Options that librdkafka reads and Python's ssl cannot, at least not from there.
UNREAD = ("ssl.keystore.location", "ssl.certificate.pem", "ssl.key.pem", "ssl.ca.certificate.stores")


def unread(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the given options that the doctor's own TLS does not support."""
    return tuple(name for name in UNREAD if options.get(name))


def context_of(options: Mapping[str, str]) -> ssl.SSLContext:
    """Return a client's TLS context with these options. Raises BadInput if a file cannot be read."""
    try:
        made = _trusting_authorities(options)
        if certificate := options.get("ssl.certificate.location"):
            password = options.get("ssl.key.password", "")  # never None: OpenSSL would prompt for it at the terminal
            made.load_cert_chain(certificate, options.get("ssl.key.location") or None, password)
    except (OSError, ValueError) as error:
        names = "ssl.ca.location, ssl.certificate.location, ssl.key.location"
        raise BadInput(
            f"the certificates in {names} cannot be read: {error}. Provide PEM files that this user may read",
            field="TIDEGATE_KAFKA_SSL_*",
        ) from error
    if options.get("ssl.endpoint.identification.algorithm", "https") != "https":
        made.check_hostname = False
    if options.get("enable.ssl.certificate.verification", "true").lower() in ("false", "0", "f"):
        return trusting(made)
    return made


def trusting(context: ssl.SSLContext | None = None) -> ssl.SSLContext:
    """Return `context`, or a new one, that trusts every certificate: if a user configures that, and to test whether a
    server speaks TLS at all (nothing secret goes over that connection).
    """
    context = context or ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _trusting_authorities(options: Mapping[str, str]) -> ssl.SSLContext:
    """Return a context with the authorities of the options, else the system's."""
    if pem := options.get("ssl.ca.pem"):
        return ssl.create_default_context(cadata=pem)
    where = options.get("ssl.ca.location")
    if not where or where == "probe":
        return ssl.create_default_context()
    if Path(where).is_dir():
        return ssl.create_default_context(capath=where)
    return ssl.create_default_context(cafile=where)
