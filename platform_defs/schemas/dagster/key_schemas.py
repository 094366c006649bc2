"""A warning for messages of one key that may be in two partitions, because key bytes contain the ids of several
schemas.
"""

from collections.abc import Callable, Sequence

from platform_defs.contract.model.contract import Contract
from platform_defs.ledger.answers import UsedSchema
from platform_defs.schemas.dagster.check_results import CheckedSchema, SchemaFit

MAX_IDS = 5  # named in a warning


def keys_apart(contract: Contract, used: Sequence[UsedSchema], partitions: Callable[[], int]) -> CheckedSchema | None:
    """Return a warning if that is possible. `used`: the schemas that the contract's messages name; `partitions`:
    returns how many partitions were read.
    """
    keys = {one.key for one in used if one.part == "key" and one.key.isdecimal()}  # a GUID is in a header
    if len(keys) < 2 or contract.wire.framing not in ("prefix", "both") or partitions() < 2:
        return None
    ids = sorted(keys, key=int)
    shown = ", ".join(ids[:MAX_IDS]) + (", ..." if len(ids) > MAX_IDS else "")
    of_late = any(one.of_late for one in used if one.key in keys and one.part == "key")
    why = (
        f"keys begin with the ids of {len(ids)} schemas ({shown}), so producers may send the same key to two "
        "partitions, and its row may keep the older message; put the schema id in a header, or move to a new topic "
        "with one key schema"
    )
    return CheckedSchema(contract.pipeline, "key schemas", of_late, SchemaFit(None, (why,)))
