"""JSON documents as encoders take them, and the error for a value that a schema cannot represent."""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NoReturn, Self

from platform_defs.formats.blocks.excerpt import excerpt

NOT_SHOWN = "a value does not fit the schema; it may be classified, and is not shown"


class CannotEncode(ValueError):
    """A document, or a value in it, that the schema cannot represent.

    `path`: the keys and array indexes that lead to the value. `reason` quotes nothing of the document if `quotes` is
    False.
    """

    def __init__(self, reason: str, *, path: Sequence[str | int] = (), quotes: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.path, self.quotes = reason, tuple(path), quotes

    def within(self, key: str | int) -> Self:
        """Return the same error for a value that is one level further out: in the field or item `key`."""
        return type(self)(self.reason, path=(key, *self.path), quotes=self.quotes)

    def describe(self, *, hide_values: bool = False) -> str:
        """Return the sentence: the place, and what is wrong there. `hide_values`: without the value."""
        place = "".join(f"[{key}]" if isinstance(key, int) else f".{excerpt(key)}" for key in self.path).lstrip(".")
        reason = NOT_SHOWN if hide_values and self.quotes else self.reason
        return f"{place}: {reason}" if place else reason

    def __str__(self) -> str:
        return self.describe()


def parse_document(text: bytes) -> Any:
    """Return the JSON document: objects as dicts, numbers with a point or an exponent as decimals.

    Raises CannotEncode for text that is not JSON, and for an object that has a key twice.
    """
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_not_json, object_pairs_hook=_object)
    except CannotEncode:
        raise
    except UnicodeDecodeError as error:
        raise CannotEncode(f"it is not UTF-8 ({error.reason} at byte {error.start})", quotes=False) from None
    except json.JSONDecodeError as error:
        raise CannotEncode(f"it is not JSON: {error.msg} at character {error.pos + 1}", quotes=False) from None
    except (ValueError, RecursionError) as error:  # a number of more than 4,300 digits; nested too deeply
        raise CannotEncode(f"it cannot be read as JSON: {excerpt(str(error))}", quotes=False) from None


def shown(value: Any) -> str:
    """Return a value in a sentence: as JSON, at most 80 characters."""
    return excerpt(json.dumps(value, ensure_ascii=False, default=str))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise CannotEncode(f"an object has the key {excerpt(twice)} twice")
    return found


def _not_json(name: str) -> NoReturn:
    raise CannotEncode(f"it is not JSON: {name} is not a JSON number", quotes=False)
