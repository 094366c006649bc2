"""Words that follow a number, for sentences that a person reads."""


def plural(count: int, noun: str, many: str = "") -> str:
    """Return the number with its noun: "1 row", "2 rows", "1,000 rows"; `many` is a plural that does not end in s."""
    return f"{count:,} {noun_for(count, noun, many)}"


def span(milliseconds: int) -> str:
    """Return a time in its largest whole unit, as in "7 days", "90 minutes" or "1,500 ms"."""
    for noun, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000)):
        if milliseconds and milliseconds % size == 0:
            return plural(milliseconds // size, noun)
    return f"{milliseconds:,} ms"


def noun_for(count: int, noun: str, many: str = "") -> str:
    """Return the noun alone, if the sentence does not name the number: "partition 3", "partitions 3 and 4"."""
    return noun if count == 1 else many or f"{noun}s"
