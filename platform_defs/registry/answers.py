"""The meaning of a registry's answer: there is no such schema, it refuses one, or neither."""

from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryError

from platform_defs.errors import error_policy
from platform_defs.errors.error_policy import ErrorPolicy
from platform_defs.registry.server import Server, Unreadable

# No such subject, version, schema; no compatibility level of the subject's own:
# https://docs.confluent.io/platform/current/schema-registry/develop/api.html#errors
MISSING = (40401, 40402, 40403)
NO_LEVEL = 40408
BUSY = (408, 425, 429, 503)  # about the server, for any query
OF_A_GATEWAY = (502, 504)  # about the registry behind it, or about one schema that takes too long
_OF_THE_SERVER = (401, 404, 407, *BUSY, *OF_A_GATEWAY)  # 404: not in a registry's form


def is_missing(error: Exception) -> bool:
    """Return True if the registry itself answered that it has no such schema. Its error code tells it from a 404 of a
    server before it; some registries send the code with HTTP status 400.
    """
    return (
        isinstance(error, SchemaRegistryError) and error.http_status_code in (400, 404) and error.error_code in MISSING
    )


def is_refusal(error: Exception) -> bool:
    """Return True if this is an answer about one schema, which says nothing about others. Silence, a server's state, an
    answer about the user (401) and a web page do not count.
    """
    if isinstance(error, Unreadable):
        return True
    return isinstance(error, SchemaRegistryError) and error.http_status_code not in _OF_THE_SERVER


def knows_no_guids(server: Server, error: Exception, seconds: float) -> bool:
    """Return True if the registry has no GUIDs at all: it answers only 404, and so does a gateway whose registry is
    gone. A registry lists its types of schemas.
    """
    known = isinstance(error, SchemaRegistryError)
    if not known or error_policy.of_registry(error.http_status_code) is not ErrorPolicy.REFUSED_ROW:
        return False
    try:
        types: Any = server.ask(lambda client: client.get_schema_types(), seconds)
    except Exception:  # noqa: BLE001  # whatever the client makes of what is not an answer
        return False
    return isinstance(types, list) and "AVRO" in types
