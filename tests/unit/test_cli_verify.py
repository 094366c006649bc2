"""`tidegate verify`: its help names every key of the JSON document."""

import re

from platform_defs.cli.verify import verify
from platform_defs.verification.report import Report


def test_the_help_names_every_key_of_the_document() -> None:
    described = (verify.__doc__ or "").partition("JSON:")[2]
    missing = [name for name in Report("p").to_json() if not re.search(rf"\b{name}\b", described)]
    assert not missing, f"add to the help of tidegate verify: {missing}"
    assert "..." not in described
