r"""The path of a field in a message: `user.address.city`, as in a field's physicalName.

Each part is a key of a JSON object, the outermost first. Any key can be written: a dot in a key is `\.`, a backslash
is `\\`, and the empty key is `\e`. So `a\.b.c` is the key `c` of the object under the key `a.b`.
"""

import re

MessagePath = tuple[str, ...]  # at least one key, outermost first

_MAX_KEYS = 99  # a message has at most 100 levels
_MAX_KEY = 1_000  # characters
_PART = re.compile(r"\\e(?![^.])|(?:[^.\\]|\\[.\\])+")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = r"in a key, a dot is written \. and a backslash \\; the empty key is \e"


def parse_path(text: str) -> MessagePath:
    """Parse the keys in `text`. Raises ValueError, with the mistake: an empty part, a lone backslash, too many keys, a
    key that is too long.
    """
    keys, position = list[str](), 0
    if re.search("[\ud800-\udfff]", text):
        raise ValueError(f"{text!r} has half a surrogate pair, which UTF-8 messages cannot contain")
    while True:
        part = _PART.match(text, position)
        if part is None:
            raise ValueError(f"{text!r} is not a path of keys such as user.address.city ({_ESCAPES})")
        keys.append("" if part[0] == r"\e" else _ESCAPED.sub(r"\1", part[0]))
        position = part.end()
        if position == len(text):
            break
        if text[position] != ".":
            raise ValueError(f"{text!r} is not a path of keys: a lone backslash ({_ESCAPES})")
        position += 1
    if len(keys) > _MAX_KEYS:
        raise ValueError(
            f"the path has {len(keys):,} keys; {_MAX_KEYS} is the maximum, since a message has at most 100 levels"
        )
    if (longest := max(map(len, keys))) > _MAX_KEY:
        raise ValueError(f"a key of the path has {longest:,} characters; {_MAX_KEY:,} is the maximum")
    return tuple(keys)


def spell_path(path: MessagePath) -> str:
    """Return `path` as a physicalName: the inverse of `parse_path`."""
    return ".".join(re.sub(r"([.\\])", r"\\\1", key) or r"\e" for key in path)
