"""docs/how-to/read-a-doctors-report.md: the sentences that it explains are the doctor's own."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "how-to" / "read-a-doctors-report.md").read_text()


def _said() -> str:
    """Return the doctor's texts about addresses, from its modules, joined at line ends, without values."""
    modules = (ROOT / "platform_defs" / "doctor" / "findings" / name for name in ("reach.py", "cluster.py"))
    text = "\n".join(path.read_text() for path in modules)
    return re.sub(r"\{[^{}]*\}", "1", re.sub(r'"\s*\n\s*f?"', "", text))


def test_every_sentence_of_the_table_is_one_of_the_doctors() -> None:
    cells = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)
    messages = [cell for cell in cells if cell != "the finding says"]
    assert len(messages) > 14
    assert [words for words in messages if words not in _said()] == []
