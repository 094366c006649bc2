"""Limits of arrays of single values, and the reasons for refusing them, for all formats."""

from platform_defs.formats.blocks.reason import Reason

MAX_ITEMS = 10_000
SIZE_OF_ITEM = 32  # bytes, about: of an item that takes one byte in its message
NULL_ITEM = Reason("NullItem", "is null; an array's items must not be null")


def at_item(number: int, wrong: Reason) -> Reason:
    """Return an item's reason as a reason of the array; `number` is counted from 1."""
    return Reason(wrong.error_class, f"has an item, number {number:,}, that {wrong.message}")


def too_many_items(number: int) -> Reason:
    """Return the reason for an array with more items than a column takes."""
    return Reason("TooManyItems", f"has {number:,} items; an array can have at most {MAX_ITEMS:,}")
