"""The Dagster component `tidegate.TopicsComponent`: `dg scaffold defs tidegate.TopicsComponent topics`."""

from typing import Any

import dagster as dg
from dagster.components.component_scaffolding import scaffold_component
from pydantic import Field
from typing_extensions import override

from platform_defs.new_project.files import has_tidegate, write_contract
from platform_defs.settings.project import ASSETS
from tidegate.location import definitions


class TopicsScaffolder(dg.Scaffolder[Any]):
    """Writes defs.yaml, and a first contract if its folder has none. The folder is `assets/`; if the project has
    Tidegate's definitions already, it has the component's name, which is also the prefix.
    """

    @override
    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        root, name = request.project_root, request.target_path.name
        is_another = root is not None and has_tidegate(root)
        attributes = {"contracts": name, "key_prefix": name} if is_another else {"contracts": ASSETS}
        scaffold_component(request, attributes)
        if root is not None:
            write_contract(root, attributes["contracts"])


@dg.scaffold_with(TopicsScaffolder)
class TopicsComponent(dg.Component, dg.Model, dg.Resolvable):
    """Loads the topics of a folder of contracts into Postgres tables, exactly once."""

    contracts: str = Field(default=ASSETS, description="The folder with the contracts, from the project's root.")
    key_prefix: str | list[str] = Field(default=[], description="The prefix of all asset keys.")
    group: str | None = Field(default=None, description="The asset group. Default: each contract's domain.")
    schedules: bool = Field(default=True, description="Whether to prune and verify every night.")

    @override
    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions of the folder's contracts."""
        folder = context.project_root / self.contracts
        return definitions(folder, key_prefix=self.key_prefix, group=self.group, schedules=self.schedules)
