"""The owners of a pipeline, from ODCS' `team`: a name and members, or a list of members."""

import re

from open_data_contract_standard.model import Team

from platform_defs.contract.document.document import Document

_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}")  # Dagster accepts no others


def read_owners(document: Document) -> tuple[str, ...]:
    """Return team:NAME of a team with a name, and the members whose username is an e-mail address. Other members are
    for readers of the file.
    """
    team = document.value.team
    members = (team.members if isinstance(team, Team) else team) or []
    name = " ".join(team.name.split()) if isinstance(team, Team) and team.name else ""
    named = [f"team:{name}"] if name else []
    emails = [one.username for one in members if one.username and _EMAIL.fullmatch(one.username)]
    return tuple(dict.fromkeys([*named, *emails]))
