"""Tokens for OAUTHBEARER from a function of the user's: TIDEGATE_KAFKA_OAUTH_CALLBACK names it.

librdkafka calls it from its own thread, when a client is made and before a token expires. Tasks get it by name, so that
its imports run in the task's process.
"""

import importlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from platform_defs.errors import BadInput

OPTION = "oauth.callback"  # TIDEGATE_KAFKA_OAUTH_CALLBACK; Tidegate's, not librdkafka's
CONFIG = "sasl.oauthbearer.config"
_VARIABLE = "TIDEGATE_KAFKA_OAUTH_CALLBACK"
_FORM = re.compile(r"[\w.]+:[\w.]+")
_PAIRS = re.compile(r"[\s,;&]+")  # in a config such as clientId=tidegate clientSecret=...
_MILLISECONDS = 1e11  # seconds until the year 5138; as milliseconds, a time in 1973
_failures: dict[str, str] = {}  # each function's last error, by its name


class NoToken(Exception):
    """The function's error, as it may be shown."""


@dataclass(frozen=True)
class TokenCallback:
    """librdkafka's `oauth_cb`. `function` is module:function, called with the text of sasl.oauthbearer.config.

    It returns the token, and when that expires, in seconds or milliseconds since the epoch; further items are
    confluent-kafka's: the principal, and extensions.
    """

    function: str

    def __call__(self, config: str) -> tuple[Any, ...]:
        try:
            module, _, path = self.function.partition(":")
            give: Any = importlib.import_module(module)
            for name in path.split("."):
                give = getattr(give, name)
            token, expires, *more = give(config)
            expires = float(expires) / (1000 if expires > _MILLISECONDS else 1)
        except Exception as error:  # noqa: BLE001  # whatever a function of the user's raises
            message = _without_values(f"{type(error).__name__}: {error}", config)
            _failures[self.function] = message
            logging.getLogger("tidegate").warning("%s (%s) returned no token: %s", self.function, _VARIABLE, message)
            raise NoToken(message) from None
        _failures.pop(self.function, None)
        return token, expires, *more

    @property
    def failure(self) -> str | None:
        """The function's last error in this process; None if it has returned a token since."""
        message = _failures.get(self.function)
        return message and f"{self.function} ({_VARIABLE}) raised {message}"


def _without_values(message: str, config: str) -> str:
    """Return the function's message without the values in its config: those may include a client's secret."""
    values = (pair.partition("=")[2].strip("\"'") for pair in _PAIRS.split(config))
    for value in sorted({config, *values} - {""}, key=len, reverse=True):
        message = message.replace(value, "***")
    return message


def with_callback(options: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's options, with the function in place of its name. Raises BadInput for an invalid name."""
    given: dict[str, Any] = dict(options)
    if (function := given.pop(OPTION, None)) is None:
        return given
    if not _FORM.fullmatch(function):
        raise BadInput(f"{function} is not the name of a function: write module:function", field=_VARIABLE)
    return {**given, "oauth_cb": TokenCallback(function)}
