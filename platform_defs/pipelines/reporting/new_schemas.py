"""A schema that messages name for the first time, as Dagster shows it: an observation of the topic's asset.

The run that read it records it. It changes no table; the observation says which line of the contract would.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.message_path import spell_path
from platform_defs.dagster.keys import topic_key
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterField, WriterSchema
from platform_defs.formats.writer_fields import difference, fields_of, line_to_add
from platform_defs.formats.writer_fit import misfit
from platform_defs.ledger.ledger import Ledger
from platform_defs.ledger.published import Published, SchemaCount
from platform_defs.ledger.schema_ledger import schemas_at
from platform_defs.pipelines.reporting.events import metadata_table, schema_name
from platform_defs.stack.endpoints import Endpoints

MAX_NEW = 20  # shown for a batch: messages may name any number


def new_schemas(
    contract: Contract, batch: Published, ledger: Ledger, endpoints: Endpoints
) -> list[dg.AssetObservation]:
    """Return an observation for each schema that messages of `batch` were the first of the pipeline to name.

    Raises LedgerAway. Schemas that the registry does not return are omitted.
    """
    named = ledger.first_named(batch)[:MAX_NEW]
    if not named:
        return []
    kept = schemas_at(endpoints.postgres_url, [(batch.registry, item.generation, item.key) for item in named])
    places = _places(contract, [item.key for item in named], endpoints)
    return [
        observation(contract, batch, item, schema, places.get(item.key, ()))
        for item in named
        if (schema := kept.get((batch.registry, item.generation, item.key)))
    ]


def observation(
    contract: Contract, batch: Published, named: SchemaCount, schema: WriterSchema, places: Sequence[tuple[str, int]]
) -> dg.AssetObservation:
    """Return the observation of a schema. `places`: subject and version of each place where the registry has it."""
    where = ", ".join(f"version {version} of {subject}" for subject, version in places[:5])
    by_key = " with their keys" if named.part == "key" else ""
    counted = f"{plural(named.messages, 'message')} of batch {batch.batch_id}"
    text = f"{counted} use it{by_key}, for the first time in {contract.pipeline}"
    return dg.AssetObservation(
        topic_key(contract.topic, contract.asset_prefix),
        description=f"Schema {schema_name(named)}{f' ({where})' if where else ''}: {text}.",
        metadata={
            "schema": schema_name(named),
            "format": schema.format,
            "pipeline": contract.pipeline,
            "contract_version": contract.version,
            "batch_id": str(batch.batch_id),
            **({"subject": places[0][0], "version": places[0][1]} if places else {}),
            **({"fits": "it is a key schema"} if named.part == "key" else _compared(contract, schema)),
        },
    )


def _compared(contract: Contract, schema: WriterSchema) -> dict[str, Any]:
    """Return the comparison of a schema of values with the contract."""
    fits = misfit(contract, schema) or "yes"
    try:
        fields = fields_of(schema, contract.wire.record)
    except (SchemaNotCompatible, ValueError, RecursionError):
        return {"fits": fits}
    found = difference(contract, fields)
    return {
        "fits": fits,
        "dagster/column_schema": dg.TableSchema(columns=[_column(item) for item in fields]),
        "fields_unknown_to_the_contract": len(found.unknown),
        "fields_missing_in_the_schema": ", ".join(item.place for item in found.missing) or "none",
        **({"lines_to_add": _lines(contract, found.unknown)} if found.unknown else {}),
    }


def _column(item: WriterField) -> dg.TableColumn:
    constraints = dg.TableColumnConstraints(nullable=item.optional)
    return dg.TableColumn(excerpt(spell_path(item.path)), excerpt(item.type), constraints=constraints)


def _lines(contract: Contract, unknown: Sequence[WriterField]) -> dg.TableMetadataValue:
    """Return, for each field that the contract does not know, the line that would read it, under the message's
    properties.
    """
    taken, rows = {item.name for item in contract.message_fields}, list[dict[str, str]]()
    for item in unknown:
        line = line_to_add(item, taken) or ""
        rows.append({"field": excerpt(spell_path(item.path)), "line to add": line})
    return metadata_table({"field": "string", "line to add": "string"}, rows)


def _places(contract: Contract, keys: Sequence[str], endpoints: Endpoints) -> dict[str, list[tuple[str, int]]]:
    """Return by id the subject and version of each place where the registry has it, the contract's subject first."""
    if endpoints.registry is None:
        return {}
    from platform_defs.registry.subjects import Subjects  # the client takes its time to load; bare JSON needs none

    try:
        found = Subjects(endpoints.registry.hurried(endpoints.registry.pace.quickly)).places(keys)
    except BadInput:  # from the client's options; if a schema has to be looked up, the run reports it
        return {}
    own = contract.wire.subject
    return {key: sorted(places, key=lambda place: (place[0] != own, place)) for key, places in found.items()}
