"""Tokens for OAUTHBEARER from a function of the user's: TIDEGATE_KAFKA_OAUTH_CALLBACK names it.

librdkafka calls it from a thread of its own, when a client is made and before a token expires. It goes to tasks by its
name, so that what it imports is imported where it is called.
"""

import importlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from platform_defs.errors import BadInput

OPTION = "oauth.callback"  # TIDEGATE_KAFKA_OAUTH_CALLBACK; of Tidegate, not of librdkafka
CONFIG = "sasl.oauthbearer.config"
_VARIABLE = "TIDEGATE_KAFKA_OAUTH_CALLBACK"
_FORM = re.compile(r"[\w.]+:[\w.]+")
_MILLISECONDS = 1e11  # seconds until the year 5138; so many milliseconds were over in 1973
_failures: dict[str, str] = {}  # what each function raised last, by its name


@dataclass(frozen=True)
class TokenCallback:
    """librdkafka's `oauth_cb`. `function` is module:function, called with the text of sasl.oauthbearer.config.

    It returns the token, and when that expires, in seconds or milliseconds since the epoch; further items are those of
    confluent-kafka: the principal, and extensions.
    """

    function: str

    def __call__(self, config: str) -> tuple[Any, ...]:
        try:
            token, expires, *more = self._load()(config)
        except Exception as error:
            _failures[self.function] = f"{type(error).__name__}: {error}"
            logging.getLogger("tidegate").warning("%s (%s) gave no token: %r", self.function, _VARIABLE, error)
            raise
        _failures.pop(self.function, None)
        return token, float(expires) / (1000 if expires > _MILLISECONDS else 1), *more

    @property
    def failure(self) -> str | None:
        """What it raised last, in this process; None where it gave a token since."""
        said = _failures.get(self.function)
        return said and f"{self.function} ({_VARIABLE}) raised {said}"

    def _load(self) -> Any:
        module, _, path = self.function.partition(":")
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        return found


def with_callback(options: Mapping[str, str]) -> dict[str, Any]:
    """librdkafka's options, with the function in place of its name. Raises BadInput for what is no such name."""
    given: dict[str, Any] = dict(options)
    if (function := given.pop(OPTION, None)) is None:
        return given
    if not _FORM.fullmatch(function):
        raise BadInput(f"{function} does not name a function: write module:function", field=_VARIABLE)
    return {**given, "oauth_cb": TokenCallback(function)}
