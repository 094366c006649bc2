"""Options of librdkafka (TIDEGATE_KAFKA_*) translated for kafka-python: docs/decisions/0022-kafka-python.md.

Options for the address and the user are translated or refused, never dropped: without one the client would connect
differently from the rest of Tidegate.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from platform_defs.errors import BadInput
from platform_defs.kafka.client.tokens import CONFIG

_NAMES: Mapping[str, str] = {
    "bootstrap.servers": "bootstrap_servers",
    "metadata.broker.list": "bootstrap_servers",
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
}

# These tune librdkafka's reading, writing and logging, which this client does not do.
_OF_NO_CONCERN = (
    *("acks", "allow.auto.create", "api.version", "auto.", "background.", "batch.", "broker.version", "check.crcs"),
    *("client.rack", "compression.", "connections.max.idle", "coordinator.", "debug", "delivery.", "enable.auto."),
    *("enable.gapless", "enable.idempotence", "enable.metrics", "enable.partition", "enable.random", "fetch."),
    *("group.", "heartbeat.", "internal.", "isolation.", "linger.", "log", "max.", "message.", "metadata.max."),
    *("metadata.recovery", "offset.", "opaque", "partition.", "partitioner", "queue", "receive.", "reconnect."),
    *("request.", "retries", "retry.", "session.", "socket.", "statistics.", "sticky.", "topic.", "transaction"),
)
_FILES = {"ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"}
_CHOICES: Mapping[str, Mapping[str, str | bool]] = {
    "security_protocol": {name: name for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")},
    "sasl_mechanism": {name: name for name in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")},
    "ssl_check_hostname": {"HTTPS": True, "NONE": False},
}
_AS_IT_IS = {"enable.ssl.certificate.verification": "true"}  # the only value that kafka-python can follow


def second_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return kafka-python's options for the same brokers and the same user.

    Raises BadInput, naming the option, for one that cannot be translated or a file that does not exist.
    """
    given, translated = dict(options), dict[str, Any]()
    if (callback := given.pop("oauth_cb", None)) is not None:
        translated["sasl_oauth_token_provider"] = partial(callback, given.pop(CONFIG, ""))  # see cluster_admin.py
    for name, value in given.items():
        if (known := _NAMES.get(name)) is not None:
            translated[known] = _value(name, known, value)
        elif not name.startswith(_OF_NO_CONCERN) and _AS_IT_IS.get(name) != str(value).lower():
            raise BadInput(
                f"the option {name} ({_variable(name)}) cannot be used here: requests to Kafka's controllers go "
                "through a second client, kafka-python, which does not support it. Leave it out for this command, "
                "or use Kafka's own tools (kafka-metadata-quorum.sh, kafka-reassign-partitions.sh)",
                field=name,
            )
    return translated


def _value(name: str, known: str, value: str) -> Any:
    if known in _FILES and not Path(value).is_file():
        raise BadInput(f"the option {name} ({_variable(name)}) is {value}, which is not a file", field=name)
    if (choices := _CHOICES.get(known)) is None:
        return value
    if value.upper() not in choices:  # librdkafka takes both cases
        allowed = ", ".join(choices)
        raise BadInput(f"the option {name} ({_variable(name)}) is {value}. Possible here: {allowed}", field=name)
    return choices[value.upper()]


def _variable(name: str) -> str:
    return f"TIDEGATE_KAFKA_{name.replace('.', '_').upper()}"
