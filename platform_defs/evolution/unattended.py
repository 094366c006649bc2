"""Which changed contract a run takes by itself, and which a person has to apply.

By default a run takes every change for which the tables need no statement. If the contract says `evolution: additive`
it takes what is free, with its statements, and nothing else. The rest is for `tidegate contract apply`, which a person
runs; rows that have other keys now are for a replay.
"""

from platform_defs.errors import BadInput
from platform_defs.evolution.changes import ChangeClass
from platform_defs.evolution.plan import ChangePlan

_UNATTENDED = (ChangeClass.WORDS, ChangeClass.FREE, ChangeClass.NEW_PIPELINE)  # of the last, its halt decides


def refuse_version(found: ChangePlan, applied_by: str, *, by_command: bool) -> None:
    """Raise BadInput where the version does not fit the change, and versions count: once a person has applied one
    (`by_command`), or where runs alter tables by themselves.
    """
    if (by_command or found.new.evolution == "additive") and found.version_mistake:
        by = f"(applied: {found.old.version}, by {applied_by})"
        raise BadInput(f"{found.version_mistake} {by}", field="version")


def refuse_attended(found: ChangePlan, *, published: bool) -> None:
    """Raise BadInput, with the command, where a person has to apply the change, or to replay for it. `published`: the
    pipeline has published a batch.
    """
    if found.found_otherwise and published:
        raise _for_a_replay(found)
    additive = found.new.evolution == "additive"
    others = [change for change in found.changes if change.kind not in _UNATTENDED]
    if (found.statements and not additive) or (others and additive):
        raise _for_a_person(found)


def _for_a_replay(found: ChangePlan) -> BadInput:
    name, changes = found.new.pipeline, [f"{item.what}: {item.sentence}" for item in found.found_otherwise]
    return BadInput(
        f"its contract has changed since {found.old.version} was applied: {'; '.join(changes)}. Nothing was written. "
        f"Rebuild the rows from the log: tidegate replay {name}",
        field=name,
    )


def _for_a_person(found: ChangePlan) -> BadInput:
    name = found.new.pipeline
    what = "; ".join([item.sql for item in found.statements] or [change.what for change in found.changes])
    return BadInput(
        f"its contract has changed since {found.old.version} was applied, and the tables have not: {what}. Nothing was "
        f"written. See what would change: tidegate contract diff {name}; then: tidegate contract apply {name} --yes",
        field=name,
    )
