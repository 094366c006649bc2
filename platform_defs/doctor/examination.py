"""All checks of `tidegate doctor`: Kafka, Postgres, Spark, Java and the disk, concurrently."""

import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from platform_defs.contract.reader.catalogue import Contracts
from platform_defs.doctor.findings import machine, pipelines
from platform_defs.doctor.findings import postgres as of_postgres
from platform_defs.doctor.findings.finding import Finding, Subject
from platform_defs.doctor.kafka_examination import KafkaExamination
from platform_defs.doctor.probes.connection import connection_problem
from platform_defs.errors import BadInput, TidegateError
from platform_defs.kafka.topic_views import KafkaTopics, is_error

UNANSWERED = 10  # times the time-out: for consecutive requests to one system


@dataclass(frozen=True)
class Examination:
    """The systems to check, and the time-out.

    `bootstrap` and `postgres_url` are None if the embedded server is wanted and is not running. `source` names the
    setting of `bootstrap`. `write`: a topic to write one message to. `seconds`: for each request.
    """

    bootstrap: str | None
    source: str
    options: Mapping[str, str] = field(repr=False)  # they may contain a password
    postgres_url: str | None = field(repr=False)
    contracts: Contracts
    spark_master: str | None
    home: Path
    dagster_url: str | None = field(default=None, repr=False)  # None: Dagster's storage is next to the ledger
    write: str | None = None
    seconds: float = 3.0

    def findings(self) -> list[Finding]:
        """Return all findings, system by system. Raises BadInput for invalid settings."""
        checks: dict[str, Callable[[], list[Finding]]] = {
            "kafka": self._kafka,
            "postgres": self._postgres,
            "pipelines": self._pipelines,
            "spark": self._spark,
            "java": self._java,
            "disk": self._disk,
        }
        limit = self.seconds * UNANSWERED
        advice = "Check whether it hangs, and what is on the path to it: a firewall, a pooler, DNS."
        findings = list[Finding]()
        for system, found in _at_once(checks, limit).items():
            if found is None:
                found = [Subject(system, "answer").error(f"{system} did not answer within {limit:g} s.", advice)]
            findings += found
        return findings

    def _kafka(self) -> list[Finding]:
        if self.bootstrap is None:
            return [_not_running("kafka")]
        options = {**self.options, "bootstrap.servers": self.bootstrap}
        asked = KafkaExamination(self.source, options, self.contracts.good, self.write, self.seconds)
        unchecked = [
            Subject("topics", broken.name).warning(
                f"The contract of {broken.name} cannot be used, so its topic was not checked: {broken.error}",
                "Correct the contract.",
            )
            for broken in self.contracts.broken
        ]
        return [*asked.findings(), *unchecked]

    def _postgres(self) -> list[Finding]:
        if self.postgres_url is None:
            return [_not_running("postgres")]
        from platform_defs.doctor.vitals import look

        try:
            seen = look(self.postgres_url, self.seconds)
        except TidegateError as refused:
            message = " ".join(str(refused.__cause__ or refused).split())  # libpq's, which never contains the password
            advice = (
                "Correct TIDEGATE_POSTGRES_URL (host, port, user, password, database, sslmode), start the server "
                "(tidegate stack up for the embedded one), or allow access to it (listen_addresses, pg_hba.conf, a "
                "firewall)."
            )
            return [Subject("postgres", "connection").error(f"Postgres cannot be used: {message}", advice)]
        return [
            *of_postgres.server(seen.vitals),
            *of_postgres.ledger(seen.ledger, seen.vitals),
            self._daemon(seen.heartbeats),
            of_postgres.clock(seen.vitals.behind),
        ]

    def _pipelines(self) -> list[Finding]:
        """Return the findings about pipelines; none if the ledger cannot be read: the findings about Postgres report
        that.
        """
        if self.postgres_url is None:
            return []
        from platform_defs.ledger.ledger import Ledger

        contracts = {contract.pipeline: contract for contract in self.contracts.good}
        try:
            known = Ledger(self.postgres_url).overview([*contracts])
        except TidegateError:
            return []
        read = {contracts[name].topic for name, one in known.items() if pipelines.read_topic_id(contracts[name], one)}
        return [*pipelines.findings(contracts, known, self._topic_ids(read))]

    def _topic_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the topics' ids; none from another cluster: the brokers of `--bootstrap` may be anywhere."""
        if self.bootstrap is None or self.source == "--bootstrap" or not topics:
            return {}
        with suppress(TidegateError):
            options = {**self.options, "bootstrap.servers": self.bootstrap}
            described = KafkaTopics(options, self.seconds).described(sorted(topics))
            return {name: str(one.topic_id) for name, one in described.items() if not is_error(one)}
        return {}

    def _daemon(self, beside_the_ledger: Mapping[str, float] | None) -> Finding:
        if self.dagster_url is None:
            return of_postgres.daemon(beside_the_ledger)
        from platform_defs.doctor.vitals import heartbeats

        try:
            return of_postgres.daemon(heartbeats(self.dagster_url, self.seconds))
        except TidegateError as refused:
            message = " ".join(str(refused.__cause__ or refused).split())
            return Subject("dagster", "storage").error(
                f"Dagster's storage cannot be used: {message}", "Check TIDEGATE_DAGSTER_URL."
            )

    def _spark(self) -> list[Finding]:
        master, problems = self.spark_master, list[str | None]()
        if master is not None and master.startswith(machine.SPARK_SCHEME):
            addresses = master.removeprefix(machine.SPARK_SCHEME).split(",")
            problems = [connection_problem(one, time.monotonic() + self.seconds) for one in addresses]
        problem = None if None in problems else next(iter(problems), None)
        return [machine.spark(version("pyspark"), master, problem)]

    def _java(self) -> list[Finding]:
        from platform_defs.stack import java

        try:
            path = java.find_java()
            return [machine.java(java.java_version(path), path, java.OLDEST)]
        except BadInput as missing:
            return [Subject("java", "java").error("Spark needs Java, and no suitable one was found.", str(missing))]

    def _disk(self) -> list[Finding]:
        there = next(folder for folder in (self.home, *self.home.parents) if folder.exists())
        return [machine.disk(str(self.home), shutil.disk_usage(there).free)]


def _not_running(system: str) -> Finding:
    name = system.capitalize()
    variable = {"kafka": "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", "postgres": "TIDEGATE_POSTGRES_URL"}[system]
    return Subject(system, "embedded").error(
        f"The embedded {name} is not running, and no other is configured.",
        f"Start it (tidegate stack up), or set {variable}.",
    )


def _at_once(checks: Mapping[str, Callable[[], list[Finding]]], seconds: float) -> dict[str, list[Finding] | None]:
    """Return the findings of each check by name; None if it has none within `seconds`. Raises the error of a check.

    Daemon threads, because a system call that hangs (a name service, a database behind a dead network) cannot be ended,
    and a pool would wait for it when the process ends.
    """
    futures = {name: Future[list[Finding]]() for name in checks}

    def run(name: str) -> None:
        try:
            futures[name].set_result(checks[name]())
        except BaseException as error:  # noqa: BLE001  # raised again below
            futures[name].set_exception(error)

    for name in checks:
        threading.Thread(target=run, args=(name,), daemon=True).start()
    done, _ = wait(futures.values(), timeout=seconds, return_when=FIRST_EXCEPTION)
    return {name: future.result() if future in done else None for name, future in futures.items()}
