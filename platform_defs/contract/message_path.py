r"""Where a field is in a message: `user.address.city`, as a field's physicalName spells it.

Each part is a key of a JSON object, the outermost first. Any key can be written: a dot in a key is `\.`, a backslash
is `\\`. So `a\.b.c` is the key `c` of the object under the key `a.b`.
"""

import re

MessagePath = tuple[str, ...]  # at least one key, outermost first

_PART = re.compile(r"(?:[^.\\]|\\[.\\])+")


def parse_path(text: str) -> MessagePath:
    r"""The keys that `text` spells. Raises ValueError, saying what is wrong: an empty key, a lone backslash."""
    keys, position = list[str](), 0
    while True:
        found = _PART.match(text, position)
        if found is None:
            at = text[position : position + 1]
            wrong = r"a backslash is written \\, a dot in a key \." if at == "\\" else "a key is empty"
            raise ValueError(f"{text!r} is not a path of keys: {wrong}")
        keys.append(re.sub(r"\\(.)", r"\1", found[0], flags=re.DOTALL))
        position = found.end()
        if position == len(text):
            return tuple(keys)
        if text[position] != ".":
            raise ValueError(rf"{text!r} is not a path of keys: a backslash is written \\, a dot in a key \.")
        position += 1


def spell_path(path: MessagePath) -> str:
    """`path` as a physicalName: the inverse of `parse_path`."""
    return ".".join(re.sub(r"([.\\])", r"\\\1", key) for key in path)
