"""The result of writers' schemas under a contract, as shown by the topic's check `writer_schemas_fit_contract`."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.reserved import WRITER_SCHEMAS_FIT
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.writer_fit import doubts_of, misfit
from platform_defs.pipelines.reporting.events import metadata_table

MAX_SHOWN = 50  # schemas in the check's table
COLUMNS = ("pipeline", "schema", "messages of the last 7 days", "result")


@dataclass(frozen=True)
class SchemaFit:
    """The result of one schema's messages under one contract."""

    misfit: str | None  # why none of them becomes a row
    doubts: tuple[str, ...] = ()  # why some may not


@dataclass(frozen=True)
class CheckedSchema:
    """A schema, the place where it was found, and its result under the contract."""

    pipeline: str
    schema: str  # the registry's id, or the subject's version
    used: bool  # by messages, in the last seven days
    fit: SchemaFit

    @property
    def severity(self) -> dg.AssetCheckSeverity | None:
        """The severity of the check; None if the schema fits."""
        if self.fit.misfit and self.used:
            return dg.AssetCheckSeverity.ERROR
        return dg.AssetCheckSeverity.WARN if self.fit.misfit or self.fit.doubts else None

    @property
    def why(self) -> str:
        return self.fit.misfit or "; ".join(self.fit.doubts) or "fits"


def check_schema(contract: Contract, schema: WriterSchema) -> SchemaFit:
    """Return the result of a schema's messages. Never raises for what the schema contains."""
    why = misfit(contract, schema)
    return SchemaFit(why) if why is not None else SchemaFit(None, doubts_of(contract, schema))


def evaluation(topic: dg.AssetKey, checked: Sequence[CheckedSchema], away: str | None) -> dg.AssetCheckEvaluation:
    """Return the check. `away`: why the registry was not asked, or not for everything."""
    bad = [item for item in checked if item.severity is not None]
    errors = [item for item in bad if item.severity is dg.AssetCheckSeverity.ERROR]
    return dg.AssetCheckEvaluation(
        asset_key=topic,
        check_name=WRITER_SCHEMAS_FIT,
        passed=not bad,
        severity=dg.AssetCheckSeverity.ERROR if errors else dg.AssetCheckSeverity.WARN,
        description=_sentence(checked, errors or bad, away),
        metadata={"schemas": _table([*bad, *(item for item in checked if item.severity is None)])} if checked else {},
    )


def _sentence(checked: Sequence[CheckedSchema], worst: Sequence[CheckedSchema], away: str | None) -> str:
    behind = f" Registered schemas that no message uses were not checked again: {away}" if away else ""
    if not checked:
        return f"No message uses a schema yet, and none is registered.{behind}"
    if not worst:
        return f"{plural(len(checked), 'schema')} checked: all fit the contract.{behind}"
    first = worst[0]
    more = f" And {len(worst) - 1} more." if len(worst) > 1 else ""
    return f"{first.pipeline}, {first.schema}: {first.why}.{more}{behind}"


def _table(checked: Sequence[CheckedSchema]) -> dg.TableMetadataValue:
    rows = [(one.pipeline, one.schema, "some" if one.used else "none", one.why[:500]) for one in checked[:MAX_SHOWN]]
    return metadata_table(dict.fromkeys(COLUMNS, "string"), [dict(zip(COLUMNS, row, strict=True)) for row in rows])
