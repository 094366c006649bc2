"""What pages list by hand is what there is: files to touch, error classes."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_every_file_that_contributing_names_is_there() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:platform_defs|resources|tests|docs|assets)/[\w./-]*)`", page)
    assert len(named) > 25
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_error_class_of_decoding_is_in_the_page_about_dead_letters() -> None:
    """A class is the first argument of a Reason, or of the pair that a faulty key gives."""
    source = [*(ROOT / "platform_defs" / "formats").rglob("*.py"), ROOT / "platform_defs" / "engine" / "task.py"]
    made = {name for path in source for name in re.findall(r'(?:Reason\(|, \()"([A-Z]\w+)"', path.read_text())}
    page = (ROOT / "docs/how-to/dead-letters.md").read_text()
    table = page.partition("At `decode`:")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([A-Z]\w+)`", table)) == made
