"""The epoch, and times that users give to commands."""

from datetime import UTC, datetime

from platform_defs.errors import BadInput

EXAMPLE = "2026-11-21T10:00:00Z"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str, option: str) -> datetime | None:
    """Return an ISO 8601 time; None for a text that is not one. Raises BadInput for a time without a zone, or before
    1970: Kafka reads negative timestamps as earliest and latest.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    if at.tzinfo is None:
        raise BadInput(f"{text} has no time zone. Write it like {EXAMPLE}", field=option)
    if at < EPOCH:
        raise BadInput(f"{text} is before 1970, where Kafka's timestamps begin", field=option)
    return at
