"""YAML 1.2 with the line of every key and item, parsed by libyaml: two hundred contracts take a second.

PyYAML's own schema is YAML 1.1, in which `no` is false and `12:30` a number. Here plain scalars have the meaning of
YAML 1.2's core schema: null, true, false, integers and floats; all else, dates too, is text.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

from platform_defs.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaml import SafeLoader as _SafeLoader
else:
    try:
        from yaml import CSafeLoader as _SafeLoader
    except ImportError:  # a PyYAML built without libyaml: the same result, more slowly
        from yaml import SafeLoader as _SafeLoader

_pyyaml: Any = yaml  # its stubs do not type compose and parse
_TAG = "tag:yaml.org,2002:"
_MAX_NODES = 100_000  # an alias may repeat a part, and an alias of aliases would repeat it without end
_DEEPEST = 100  # levels; ODCS' own keys need about ten
_CORE_SCHEMA = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
)


Beside = Callable[[str], str]  # of a file's name; raises OSError or ValueError


class _Loader(_SafeLoader):
    """Only `compose` is used: nodes with their tags and marks, no values."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  # as PyYAML has it


_loader = cast("Any", _Loader)  # the stubs do not type the method
for _name, _pattern, _first in _CORE_SCHEMA:
    _loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z"), _first)


class YamlText:
    """A YAML file: `value` is plain dicts, lists and scalars, `line` returns the line of each part.

    Raises BadInput, with file and line, if the file cannot be read or is not YAML. A duplicate key is not YAML. `text`:
    the file's content, if it is read from elsewhere: from git, or from the ledger. `beside` then returns the text of a
    file in its folder.
    """

    def __init__(self, path: Path, text: str | None = None, beside: Beside | None = None) -> None:
        self.path, self.beside = path, beside
        self.mistakes: list[BadInput] = []  # found so far (`Node.read`)
        self.unknown_keys: dict[tuple[str | int, ...], list[str]] = {}  # of each mapping, among the mistakes
        self.consequences = set[BadInput]()  # keys that are missing because an unknown one is them, misspelled
        self._nodes = 0
        try:
            text = path.read_text(encoding="utf-8") if text is None else text
            self._refuse_depth(text)
            self._root: yaml.Node | None = _pyyaml.compose(text, Loader=_Loader)
            self.value = self._value(self._root) if self._root else None
        except OSError as wrong:
            raise self._refused(f"cannot be read: {wrong.strerror}") from wrong
        except UnicodeDecodeError as wrong:
            raise self._refused(f"is not UTF-8: byte {wrong.start} is {wrong.object[wrong.start]:#04x}") from wrong
        except yaml.MarkedYAMLError as wrong:
            line = wrong.problem_mark.line + 1 if wrong.problem_mark else None
            raise self._refused(f"not YAML: {(wrong.problem or 'cannot be parsed').splitlines()[0]}", line) from wrong
        except yaml.YAMLError as wrong:
            raise self._refused(f"not YAML: {str(wrong).splitlines()[0]}") from wrong
        except RecursionError as wrong:
            raise self._refused("contains an alias of itself") from wrong

    def line(self, *place: str | int) -> int:
        """Return the line of `place`, counted from 1, or of the nearest part of it that exists."""
        node, line = self._root, 0
        for step in place:
            found = _part(node, step)
            if found is None:
                break
            line, node = found
        return line + 1

    def _refuse_depth(self, text: str) -> None:
        """Raise BadInput for deep nesting: libyaml composes by recursion; 100,000 brackets would end the process."""
        depth = 0
        events: Iterator[yaml.Event] = _pyyaml.parse(text, Loader=_Loader)
        for event in events:
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise self._refused("is nested too deeply", event.start_mark.line + 1)

    def _refused(self, message: str, line: int | None = None) -> BadInput:
        return BadInput(message, file=str(self.path), line=line)

    def _value(self, node: yaml.Node) -> Any:
        self._nodes += 1
        line = node.start_mark.line + 1
        if self._nodes > _MAX_NODES:
            raise self._refused(f"contains more than {_MAX_NODES:,} values, including aliases", line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item) for item in node.value]
        try:
            return _scalar(node.tag.removeprefix(_TAG), str(node.value))
        except (KeyError, ValueError) as wrong:  # a tag of its own, or !!int of a word
            raise self._refused(f"not YAML 1.2: {node.value!r} cannot be read as {node.tag}", line) from wrong

    def _mapping(self, node: yaml.MappingNode) -> dict[Any, Any]:
        found = dict[Any, Any]()
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._refused("a key must be a scalar, not a list or mapping", line)
            key = self._value(key_node)
            if key == "<<":
                raise self._refused("merge keys (<<) are not part of YAML 1.2; write the keys out", line)
            if key in found:
                raise self._refused(f"not YAML: the key {key!r} appears twice", line)
            found[key] = self._value(value_node)
        return found


def _scalar(tag: str, text: str) -> str | int | float | bool | None:
    match tag:
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return {"true": True, "false": False}[text.lower()]
        case "int":
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        case "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        case _:
            raise KeyError(tag)


def _part(node: yaml.Node | None, step: str | int) -> tuple[int, yaml.Node] | None:
    """Return the line and node of a mapping's key or a list's position."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key.start_mark.line, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line, node.value[step]
    return None


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*(?:-[A-Za-z0-9_.]+)*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}  # YAML 1.1 reads them as something else


def yaml_scalar(value: Any) -> str:
    """Return the value on one line, in a flow mapping too; a text is quoted unless every YAML version reads it as that
    text.
    """
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    written: str = yaml.safe_dump(
        value, default_style='"' if isinstance(value, str) else None, width=1 << 30, default_flow_style=True
    )
    return written.removesuffix("\n").removesuffix("\n...")
