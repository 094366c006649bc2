"""Arrays of single values: what all formats refuse in them, in the same words."""

from platform_defs.formats.blocks.reason import Reason

MAX_ITEMS = 10_000
SIZE_OF_ITEM = 32  # bytes, about: of one that takes a byte in its message
NULL_ITEM = Reason("NullItem", "is null; an array's items are values")


def at_item(number: int, wrong: Reason) -> Reason:
    """What is wrong with an item, counted from 1, as a fault of the array."""
    return Reason(wrong.error_class, f"has an item, number {number:,}, that {wrong.message}")


def too_many_items(number: int) -> Reason:
    """The array has more items than a column takes."""
    return Reason("TooManyItems", f"has {number:,} items; an array has at most {MAX_ITEMS:,}")
