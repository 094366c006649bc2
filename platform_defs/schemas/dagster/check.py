"""The check `writer_schemas_fit_contract` of a topic: messages of all registered schemas become rows.

The ledger knows which schemas messages name, for all pipelines in one statement; the registry, which others are under
the contracts' subjects. A schema is evaluated once for each contract. Contracts whose messages name no schema have no
such check.
"""

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import dagster as dg

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.reserved import WRITER_SCHEMAS_FIT
from platform_defs.contract.odcs_writer import contract_digest
from platform_defs.dagster.run_session import RunSession
from platform_defs.errors import BadInput, RegistryAway, TidegateError
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.writer_fit import doubts_of, misfit
from platform_defs.ledger.answers import UsedSchema
from platform_defs.pipelines.reporting.events import metadata_table
from platform_defs.pipelines.reporting.halts import as_result, shows_otherwise
from platform_defs.pipelines.scheduler.survey import kept_survey
from platform_defs.stack.endpoints import Endpoints, connection
from platform_defs.topics.dagster.assets import Topic

if TYPE_CHECKING:
    from platform_defs.ledger.ledger import Ledger
    from platform_defs.registry.subjects import Subjects

Answer = TypeVar("Answer")
SENSOR, OP = "writer_schemas", "check_writer_schemas"
EVERY = 60  # seconds between two queries for the schemas that messages name, one for all pipelines
SUBJECT_INTERVAL = 300.0  # seconds between two requests to the registry for the subjects of a topic
BUDGET = 20.0  # seconds of a tick; the next one evaluates the rest
VERSION_LIFETIME = 3600.0  # seconds after which versions are requested again: a registry may have been rebuilt
MAX_VERSIONS = 100  # of a subject, the newest
MAX_KEPT = 50_000  # evaluations in a process, the newest
MAX_SHOWN = 50  # schemas in the check's table
COLUMNS = ("pipeline", "schema", "messages of the last 7 days", "result")


Place = tuple[str, int, str]  # registry, generation and id, as in the ledger; or "", a version and its subject


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


@dataclass
class Memory:
    """The state that a process keeps between two evaluations: no schemas, since those may be large."""

    fits: dict[tuple[str, Place], SchemaFit] = field(default_factory=dict[tuple[str, Place], SchemaFit])
    looked: dict[str, tuple[float, frozenset[UsedSchema]]] = field(
        default_factory=dict[str, tuple[float, frozenset[UsedSchema]]]
    )
    # Of the registry's last answer, by pipeline: the contract's digest, and the schemas that no message names.
    unused: dict[str, tuple[str, list[CheckedSchema]]] = field(
        default_factory=dict[str, tuple[str, list[CheckedSchema]]]
    )
    subjects: "Subjects | None" = None
    asked_since: float = 0.0

    def of(self, endpoints: Endpoints) -> "Subjects | None":
        """Return the registry's subjects; None if there is no registry. Raises BadInput for its options."""
        from platform_defs.registry.subjects import Subjects  # the client takes its time to load

        if time.monotonic() - self.asked_since > VERSION_LIFETIME or self.subjects is None:
            registry = endpoints.registry
            self.subjects = Subjects(registry.hurried(registry.pace.quickly)) if registry else None
            self.fits = {place: found for place, found in self.fits.items() if place[1][0]}
            self.asked_since = time.monotonic()
        return self.subjects


def naming_topics(topics: Iterable[Topic]) -> list[Topic]:
    """Return the topics whose messages name schemas, each with the contracts that read them so."""
    found = [Topic(one.name, tuple(item for item in one.contracts if item.wire.framed)) for one in topics]
    return [one for one in found if one.contracts]


def schemas_checks(topics: Sequence[Topic], names: str = "") -> dg.AssetChecksDefinition:
    """Return the checks of these topics, in one op. They can be run manually; otherwise the sensor reports them."""
    by_key = {check_key(topic): topic for topic in topics}

    @dg.multi_asset_check(name=f"{names}{OP}", specs=[_spec(topic) for topic in topics], can_subset=True)
    def check_schemas(
        context: dg.AssetCheckExecutionContext,
        tidegate_run_session: RunSession,  # noqa: ARG001  # open while the run is alive
    ) -> Iterator[dg.AssetCheckResult]:
        chosen = [by_key[key] for key in context.selected_asset_check_keys]
        try:
            endpoints = connection()
            look = Look(endpoints, kept_survey(endpoints).ledger, Memory())
            used = look.used(chosen)
            for topic in chosen:
                yield as_result(look.evaluation(topic, used.get(topic.name, frozenset())))
        except TidegateError as error:
            raise dg.Failure(str(error), allow_retries=False) from error

    return check_schemas


def _spec(topic: Topic) -> dg.AssetCheckSpec:
    key = check_key(topic)
    return dg.AssetCheckSpec(
        key.name,
        asset=key.asset_key,
        description=(
            f"Messages of {topic.name} become rows, whichever registered schema they were written with. Failed: "
            "messages of the last seven days use a schema that does not fit the contract. Warning: a registered "
            "schema does not fit but no recent message uses it; a schema fits but some of its values may not; or "
            "keys use several schemas, so the same key may be in two partitions."
        ),
        metadata={"evaluated": f"when messages use a new schema, and every {SUBJECT_INTERVAL / 60:.0f} minutes"},
    )


def schemas_sensor(topics: Sequence[Topic], names: str = "") -> dg.SensorDefinition:
    """Return the sensor that reports these topics' checks without a run, if they differ from what Dagster shows."""
    memory = Memory()

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name=f"{names}{SENSOR}",
        minimum_interval_seconds=EVERY,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Compares the registered schemas with the contracts. Launches no runs.",
    )
    def compare(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        endpoints = connection()
        look = Look(endpoints, kept_survey(endpoints).ledger, memory)
        found = look.at(topics)
        news = shows_otherwise(context.instance, found)
        checked = f"{len(found)} of {plural(len(topics), 'topic')}"
        message = f"Checked the schemas of {checked}; {plural(len(news), 'result')} changed"
        return dg.SensorResult(asset_events=news, skip_reason=message)

    return compare


def check_key(topic: Topic) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(topic.key, WRITER_SCHEMAS_FIT)


class Look:
    """One evaluation of the schemas of topics."""

    def __init__(self, endpoints: Endpoints, ledger: "Ledger", memory: Memory) -> None:
        self._endpoints, self._ledger, self._memory = endpoints, ledger, memory
        self._away: str | None = None  # why this evaluation no longer queries the registry

    def at(self, topics: Sequence[Topic]) -> list[dg.AssetCheckEvaluation]:
        """Return the checks of the topics that are due: those whose messages name other schemas than before, and those
        that were evaluated SUBJECT_INTERVAL seconds ago. Raises LedgerAway.
        """
        used, began = self.used(topics), time.monotonic()
        found = list[dg.AssetCheckEvaluation]()
        for topic in sorted(topics, key=lambda one: self._memory.looked.get(one.name, (0.0, None))[0]):
            named = used.get(topic.name, frozenset())
            when, before = self._memory.looked.get(topic.name, (0.0, None))
            if before != named or began - when >= SUBJECT_INTERVAL:
                result = self.evaluation(topic, named)
                # While the registry is unavailable, a contract may have no answer of it in this process.
                seen = self._away is None or all(one.pipeline in self._memory.unused for one in topic.contracts)
                if seen or not result.passed:  # otherwise, what Dagster shows stays
                    found.append(result)
                self._memory.looked[topic.name] = (time.monotonic(), named)
            if time.monotonic() - began > BUDGET:
                break
        return found

    def used(self, topics: Sequence[Topic]) -> Mapping[str, frozenset[UsedSchema]]:
        """Return by topic the schemas that messages name, in one query for all. Raises LedgerAway."""
        names = {item.pipeline: topic.name for topic in topics for item in topic.contracts}
        found = dict[str, set[UsedSchema]]()
        for item in self._ledger.schemas_used(list(names)):
            found.setdefault(names[item.pipeline], set()).add(item)
        return {name: frozenset(every) for name, every in found.items()}

    def evaluation(self, topic: Topic, used: frozenset[UsedSchema]) -> dg.AssetCheckEvaluation:
        """Return the check of one topic, now."""
        checked = [
            item
            for contract in topic.contracts
            for item in self._checked(contract, [one for one in used if one.pipeline == contract.pipeline])
        ]
        return evaluation(topic.key, checked, self._away)

    def _checked(self, contract: Contract, used: Sequence[UsedSchema]) -> list[CheckedSchema]:
        """Return the schemas that messages name, then those only registered, then the keys if these are in doubt."""
        values = [one for one in used if one.part == "value"]
        fits = self._of_used(contract, values)
        order = sorted(fits, key=lambda one: (one.generation, len(one.key), one.key))
        found = [CheckedSchema(contract.pipeline, f"id {one.key}", one.of_late, fits[one]) for one in order]
        newest = max((one.generation for one in values), default=1)
        found += self._unused(contract, {one.key for one in values if one.generation == newest})
        apart = keys_apart(contract, used, lambda: len(self._ledger.positions(contract.pipeline)))
        return [*found, apart] if apart else found

    def _of_used(self, contract: Contract, used: Sequence[UsedSchema]) -> dict[UsedSchema, SchemaFit]:
        """Return the evaluations of schemas that the ledger has, which is queried for those without one."""
        from platform_defs.ledger.schema_ledger import schemas_at  # imports psycopg: not for definitions

        by, places = contract_digest(contract), {one: (one.registry, one.generation, one.key) for one in used}
        known = {place: fit for place in places.values() if (fit := self._memory.fits.get((by, place)))}
        new = schemas_at(self._endpoints.postgres_url, [place for place in places.values() if place not in known])
        known |= {place: self._check(contract, by, place, schema) for place, schema in new.items()}
        return {one: known[place] for one, place in places.items() if place in known}

    def _unused(self, contract: Contract, used: Container[str]) -> list[CheckedSchema]:
        """Return the versions of the contract's subject that no message names. The schema of one without an evaluation
        is requested. While the registry is unavailable: the versions of its last answer in this process.
        """
        subject, by, found = contract.wire.subject, contract_digest(contract), list[CheckedSchema]()
        for number, keys in (self._asked(lambda subjects: subjects.keys(subject, MAX_VERSIONS)) or {}).items():
            if any(key in used for key in keys):
                continue
            place = "", number, subject
            if (fit := self._memory.fits.get((by, place))) is None:
                version = self._asked(lambda subjects, at=number: subjects.version(subject, at))
                if version is not None and version.schema is not None:
                    fit = self._check(contract, by, place, version.schema)
            if fit is not None:
                found.append(CheckedSchema(contract.pipeline, f"version {number} of {subject}", False, fit))
        digest, before = self._memory.unused.get(contract.pipeline, (None, found))
        if self._away is not None:
            return before if digest == by else found
        self._memory.unused[contract.pipeline] = by, found
        return found

    def _asked(self, question: "Callable[[Subjects], Answer]") -> Answer | None:
        """Return the registry's answer; None if there is no registry, or once it did not answer in this evaluation."""
        if self._away is not None:
            return None
        try:
            subjects = self._memory.of(self._endpoints)
            return question(subjects) if subjects else None
        except (RegistryAway, BadInput) as error:
            self._away = str(error)
            return None

    def _check(self, contract: Contract, by: str, place: Place, schema: WriterSchema) -> SchemaFit:
        fit = self._memory.fits[by, place] = check_schema(contract, schema)
        if len(self._memory.fits) > MAX_KEPT:
            del self._memory.fits[next(iter(self._memory.fits))]
        return fit


MAX_IDS = 5  # named in a warning


def keys_apart(contract: Contract, used: Sequence[UsedSchema], partitions: Callable[[], int]) -> CheckedSchema | None:
    """Return a warning if messages of one key may be in two partitions, because key bytes contain the ids of several
    schemas; else None. `used`: the schemas that the contract's messages name; `partitions`: returns how many partitions
    were read.
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


def check_schema(contract: Contract, schema: WriterSchema) -> SchemaFit:
    """Return the result of a schema's messages. Never raises for what the schema contains."""
    why = misfit(contract, schema)
    return SchemaFit(why) if why is not None else SchemaFit(None, doubts_of(contract, schema))


def evaluation(topic: dg.AssetKey, checked: Sequence[CheckedSchema], away: str | None) -> dg.AssetCheckEvaluation:
    """Return the check. `away`: why the registry was not queried, or not for everything."""
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
    unchecked = f" Registered schemas that no message uses were not checked again: {away}" if away else ""
    if not checked:
        return f"No message uses a schema yet, and none is registered.{unchecked}"
    if not worst:
        return f"{plural(len(checked), 'schema')} checked: all fit the contract.{unchecked}"
    first = worst[0]
    more = f" And {len(worst) - 1} more." if len(worst) > 1 else ""
    return f"{first.pipeline}, {first.schema}: {first.why}.{more}{unchecked}"


def _table(checked: Sequence[CheckedSchema]) -> dg.TableMetadataValue:
    rows = [(one.pipeline, one.schema, "some" if one.used else "none", one.why[:500]) for one in checked[:MAX_SHOWN]]
    return metadata_table(dict.fromkeys(COLUMNS, "string"), [dict(zip(COLUMNS, row, strict=True)) for row in rows])
