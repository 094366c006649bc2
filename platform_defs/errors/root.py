"""The root of the tree, and its form across a process boundary."""

from collections.abc import Mapping
from typing import Any


class TidegateError(Exception):
    """The root: `except TidegateError` catches what the project raises on purpose, and nothing else."""

    exit_code = 1  # of the command that ends with it

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as type, arguments and attributes, whatever the signature of `__init__`."""
        return restore, (type(self), self.args, dict(vars(self)))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, for `from_json`. An attribute that JSON does not know becomes its text."""
        return {"class": type(self).__name__, "args": list(self.args), "attributes": dict(vars(self))}


def restore(kind: type[TidegateError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> TidegateError:
    """Return an error of this kind as it was, without its `__init__`."""
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error
