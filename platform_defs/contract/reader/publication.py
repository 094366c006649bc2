"""The contracts that may be published directly: each range by the task that reads it (engine/direct.py)."""

from open_data_contract_standard.model import SchemaObject

from platform_defs.contract.document.node import Node
from platform_defs.contract.model.contract import Contract

STAGED = "or leave out publication, so that batches are staged first"


def refuse_undirect(contract: Contract, tables: list[Node[SchemaObject]]) -> None:
    """Raise BadInput if the contract has publication: direct and anything that only a staged batch supports. A
    transform is refused in contract/reader/catalogue.py.
    """
    if contract.publication != "direct":
        return
    row_table = contract.row_table
    if row_table.disposition != "append":
        raise tables[0].refused(
            f"publication: direct writes to append tables only, and {row_table.name} is {row_table.disposition}: "
            "the newest message of a key cannot be determined among ranges that commit separately. Make the table "
            f"append, {STAGED}"
        )
    for table in tables[1:]:
        raise table.refused(
            f"publication: direct does not support accumulate tables ({table.child('physicalName').value}): the "
            f"ranges would wait for each other's groups. Remove the table, {STAGED}"
        )
    for rule in tables[0].children("quality"):
        raise rule.refused(
            f"publication: direct does not support batch rules ({rule.child('name').value}): rows are published "
            f"before the whole batch can be checked. Remove the rule, {STAGED}"
        )
    for column in tables[0].children("properties"):
        kind = next(item.type for item in row_table.columns if item.name == column.value.name)
        if not kind.copied:
            raise column.refused(
                f"publication: direct cannot write {kind.name} ({column.value.name}): COPY does not accept the "
                f"decoded form. Make it a string, {STAGED}"
            )
