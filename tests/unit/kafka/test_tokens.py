"""Tokens from a user's function, named by TIDEGATE_KAFKA_OAUTH_CALLBACK."""

import pickle
import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from platform_defs.errors import AccessDenied, BadInput
from platform_defs.kafka.client.admin_client import admin_client
from platform_defs.kafka.client.second_client import second_options
from platform_defs.kafka.client.tokens import NoToken, TokenCallback
from platform_defs.kafka.cluster_admin import Tokens
from platform_defs.stack.endpoints import Endpoints
from tests.support.waiting import within

pytestmark = pytest.mark.long


HERE = "tests.unit.kafka.test_tokens"
OAUTH = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.config": "eu-west-1",
}


def in_milliseconds(region: str) -> tuple[str, int]:
    """Return a token and its expiry, as aws_msk_iam_sasl_signer's generate_auth_token(region) does."""
    return f"token of {region}", 1_795_403_000_123


def in_seconds(_: str) -> tuple[str, float, str, dict[str, str]]:
    return "token", time.time() + 60, "me", {"more": "extensions"}


def failing(_: str) -> tuple[str, float]:
    raise LookupError("no credentials found")


def never(_: str) -> tuple[str, str]:
    return "token", "tomorrow"


def unfinished(_: str) -> str:
    return "token"


def quoting(config: str) -> tuple[str, float]:
    raise ValueError(f"cannot read {config}: secret {config.partition('clientSecret=')[2]}")


def options(function: str) -> dict[str, Any]:
    return Endpoints("", "127.0.0.1:1", {**OAUTH, "oauth.callback": function}).kafka_options()


def test_the_function_is_called_with_the_config_and_goes_to_tasks_by_its_name() -> None:
    callback = pickle.loads(pickle.dumps(options(f"{HERE}:in_milliseconds")["oauth_cb"]))  # noqa: S301  # as Spark does
    assert callback == TokenCallback(f"{HERE}:in_milliseconds")
    assert callback("eu-west-1") == ("token of eu-west-1", 1_795_403_000.123)
    token, expires, *more = TokenCallback(f"{HERE}:in_seconds")("")
    assert (token, more) == ("token", ["me", {"more": "extensions"}])
    assert 0 < expires - time.time() < 61


def test_the_second_client_gets_the_same_tokens() -> None:
    translated = second_options(options(f"{HERE}:in_milliseconds"))
    assert Tokens(translated.pop("sasl_oauth_token_provider")).token() == "token of eu-west-1"
    assert translated == {
        "bootstrap_servers": "127.0.0.1:1",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }


@pytest.mark.parametrize("name", ["no_function_at_all", "module:", ":function", "os:system('rm')"])
def test_what_names_no_function_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match=r"TIDEGATE_KAFKA_OAUTH_CALLBACK.*write module:function"):
        options(name)


def test_a_function_that_raises_is_not_quoted_with_what_it_was_called_with(caplog: pytest.LogCaptureFixture) -> None:
    callback = TokenCallback(f"{HERE}:quoting")
    with pytest.raises(NoToken, match="ValueError: cannot read") as raised:
        callback("clientId=tidegate clientSecret=s3cret")
    for message in (str(raised.value), str(callback.failure), caplog.text):
        assert "ValueError: cannot read ***: secret ***" in message
        assert "s3cret" not in message


@pytest.mark.parametrize("function", ["never", "unfinished"])
def test_a_function_that_returns_no_token_is_named_as_one_that_raises(function: str) -> None:
    callback = TokenCallback(f"{HERE}:{function}")
    with pytest.raises(NoToken):
        callback("")
    assert f"{HERE}:{function}" in (callback.failure or "")


@pytest.mark.slow
def test_a_function_that_raises_is_named_with_what_it_said() -> None:
    message = r"tests.unit.kafka.test_tokens:failing .* raised LookupError: no credentials found"
    with within(12), pytest.raises(AccessDenied, match=message):  # librdkafka waits ten seconds for the first token
        admin_client(options(f"{HERE}:failing"))


def test_librdkafka_takes_the_options() -> None:
    assert AdminClient(options(f"{HERE}:in_seconds") | {"log_level": 0})
