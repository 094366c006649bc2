"""The plan by which `pyarrow.json` reads a contract's messages: a schema with a struct for each object taken apart."""

import re
from dataclasses import dataclass, field

import pyarrow as pa

from platform_defs.contract.model.column_types import JSON
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.formats.blocks.arrow import ArrowField, one_value
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.json.columns import read_as
from platform_defs.formats.json.message_shape import ObjectShape, message_shape
from platform_defs.formats.json.single import MAX_DEPTH

# For RE2: a number with so many decimals, written out or by its exponent, that pyarrow shifts the digits by more than
# its table of powers has. It then reads past the table's end, and returns garbage or crashes.
# In a string it also accepts exponents that JSON does not know: with two signs, and hexadecimal.
_EXPONENT = r"[eE](?:-[0-9]{2,}|[+-][+-]|[+-]*0[xX])"
_FAR = rf'\s*"?[+-]?[0-9]*(?:\.[0-9]{{30,}}|[0-9.]*{_EXPONENT})[0-9a-zA-Z+-]*\s*[",}}\]]'
_SHIFTED_FAR = rf"\s*:{_FAR}"
_SHIFTED_FAR_IN_AN_ARRAY = rf"[\[,]{_FAR}"
_MAX_NAMED = 20  # keys: RE2 is fastest with few
_MAX_HINTS = 3  # keys: each takes a pass of its own, a third as long as one for all of them


@dataclass
class ReadPlan:
    """The schema requested from `pyarrow.json`, and the place of each field in its result."""

    contract: Contract
    shape: ObjectShape = field(init=False)
    schema: pa.Schema = field(init=False)  # json columns are not in it
    places: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by position: indexes in the schema, outer first
    whole: dict[int, MessagePath] = field(default_factory=dict)  # by position: the json columns
    readable: bool = True  # True if one schema can request all of it
    shifted_far: str | None = None  # what a decimal that pyarrow is to read must not look like; None without decimals
    hints: list[str] = field(default_factory=list[str])  # if `shifted_far` matches, one of these does: searched first

    def __post_init__(self) -> None:
        self.shape = message_shape(self.contract)
        self.whole = {n: item.path for n, item in enumerate(self.contract.fields) if item.type == JSON}
        self.schema = pa.schema(self._fields(self.shape, ()))
        self._note_shifted_far()
        self.readable &= all(len(item.path) <= MAX_DEPTH for item in self.contract.fields)  # pyarrow reads any depth

    def _note_shifted_far(self) -> None:
        """Set `shifted_far`, with the keys of the decimals if each has one spelling only (but for \\u escapes), and the
        hints: an expression for each key, without the quote before it. Quotes are so frequent that RE2 would check
        every byte; the first letter of a key lets it leap.
        """
        fields = self.contract.fields
        keys = sorted({item.path[-1] for item in fields if item.type.kind == "decimal"})
        in_arrays = any(item.type.item and item.type.item.kind == "decimal" for item in fields)
        plain = all(re.fullmatch("[A-Za-z0-9_.-]+", key) for key in keys)
        named = f'"(?:{"|".join(map(re.escape, keys))})"' if plain and len(keys) <= _MAX_NAMED else '"'
        expressions = [named + _SHIFTED_FAR] * bool(keys) + [_SHIFTED_FAR_IN_AN_ARRAY] * in_arrays
        self.shifted_far = "|".join(expressions) or None
        if self.shifted_far and (in_arrays or not plain or len(keys) > _MAX_HINTS):
            self.hints = [self.shifted_far]
        else:
            self.hints = [f'{re.escape(key)}"{_SHIFTED_FAR}' for key in keys]

    def finds_shifted_far(self, joined: bytes, values: pa.BinaryArray) -> bool:
        """Return True if `shifted_far` matches one of the values; `joined` is all of them, one after another."""
        text = one_value(joined)
        if not any(pc.match_substring_regex(text, hint)[0].as_py() for hint in self.hints):
            return False
        return pc.any(pc.match_substring_regex(values, self.shifted_far)).as_py()

    def _fields(self, shape: ObjectShape, above: tuple[int, ...]) -> list[ArrowField]:
        """Return the Arrow fields of an object at the indexes `above`; note the place of each column in it."""
        fields = list[ArrowField]()
        for key, positions in shape.columns.items():
            read = [position for position in positions if position not in self.whole]
            kinds = {read_as(self.contract.fields[position]) for position in read}
            self.readable &= len(kinds) < 2 and not (kinds and key in shape.objects)
            self.places.update(dict.fromkeys(read, (*above, len(fields))))
            fields += [pa.field(key, kind) for kind in list(kinds)[:1]]
        for key, below in shape.objects.items():
            if inner := self._fields(below, (*above, len(fields))):
                fields.append(pa.field(key, pa.struct(inner)))
        return fields
