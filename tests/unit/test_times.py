"""Times that users give to commands."""

from datetime import UTC, datetime

import pytest

from platform_defs.errors import BadInput
from platform_defs.times import parse_time


@pytest.mark.parametrize("text", ["2026-11-21T10:00:00Z", "2026-11-21T12:00:00+02:00"])
def test_a_time_has_a_zone(text: str) -> None:
    assert parse_time(text, "--to") == datetime(2026, 11, 21, 10, tzinfo=UTC)


def test_another_text_is_no_time() -> None:
    assert parse_time("latest", "--to") is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("2026-11-21T10:00:00", "has no time zone"),
        ("2026-11-21", "has no time zone"),
        ("1969-12-31T23:59:59.999Z", "is before 1970"),  # -1 ms, which asks Kafka for the end of the log
    ],
)
def test_a_time_that_kafka_would_read_as_another_is_refused(text: str, error: str) -> None:
    with pytest.raises(BadInput, match=error) as raised:
        parse_time(text, "--to")
    assert raised.value.field == "--to"
