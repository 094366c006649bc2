"""One value as YAML, for text that people read and edit."""

import re
from typing import Any

import yaml

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
