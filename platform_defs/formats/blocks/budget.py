"""The limit on the text that a block of messages may become.

A byte of a message can stand for a long name of its schema, so a block of a few megabytes could become many gigabytes.
A block beyond its budget is read in halves (`block.in_parts`); the columns limit single messages.
"""

from dataclasses import dataclass, field

MAX_SPELLED = 256 << 20  # characters: far from the 2 GiB at which Arrow's strings end
MAX_NAME = 1_000  # characters of a name in a schema, or of an enum's symbol


class BlockTooLarge(Exception):
    """The block would become more text than its budget allows, and has more than one message."""


@dataclass
class Budget:
    """The characters left for a block of `messages` messages."""

    messages: int
    left: int = field(default_factory=lambda: MAX_SPELLED)

    def spend(self, characters: int) -> None:
        """Take `characters` away. Raises BlockTooLarge if fewer are left and the block has several messages."""
        self.left -= characters
        if self.left < 0 and self.messages > 1:
            raise BlockTooLarge


def too_long(name: str) -> str | None:
    """Return why a name of a schema is refused; None if it is not."""
    if len(name) <= MAX_NAME:
        return None
    return f"a name in it has {len(name):,} characters, and the maximum is {MAX_NAME:,}: {name[:40]}…"
