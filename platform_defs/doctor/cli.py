"""`tidegate doctor`: the problems with Kafka, Postgres and this machine, and their remedies."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from platform_defs.cli.output import Output, OutputOption, print_json, print_line
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.doctor.examination import Examination

BOOTSTRAP = "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS"


def doctor(
    bootstrap: str | None = typer.Option(
        None, help="Brokers to check instead, as host:port, separated by commas.", show_default="those of the settings"
    ),
    write: str | None = typer.Option(
        None, metavar="TOPIC", help="Write one message to this topic, and read it back.", show_default="not tried"
    ),
    timeout: float = typer.Option(3.0, min=0.1, help="Time limit of each check, in seconds."),
    output: OutputOption = Output.human,
) -> None:
    """Check Kafka, Postgres and this machine, and report what to fix.

    Run the doctor on the machine whose client has the problem. It tries every
    bootstrap address, then every address that the brokers advertise: DNS, TCP,
    TLS, login, and which broker answers. Next it checks topics, ACLs and
    reading; Postgres, the ledger, Dagster's daemon, Spark, Java, disk and
    clock. It reports each pipeline that is halted or failing, with the command
    that fixes it. It writes nothing, except with --write.

    The exit code is 1 if a finding is an error.

    \b
    JSON:
      counts    how many findings are an error, a warning, ok
      seconds   how long it took
      findings  severity (error, warning or ok), area, subject, what,
                do (empty if all is well)
    """
    from platform_defs.doctor.findings.finding import by_area, count

    begun = time.monotonic()
    findings = _examination(bootstrap, write, timeout).findings()
    seconds, counts = round(time.monotonic() - begun, 2), count(findings)
    if output is Output.json:
        print_json({"counts": counts, "seconds": seconds, "findings": [asdict(one) for one in findings]})
    else:
        for area, found in by_area(findings).items():
            print_line(area)
            for one in found:
                print_line(f"  {one.severity.value:<7}  {one.what}")
                if one.do:
                    print_line(f"  {'':<7}  -> {one.do}")
        message = f"{plural(counts['error'], 'error')}, {plural(counts['warning'], 'warning')}, {counts['ok']} ok"
        print_line(f"{message}; {seconds:.1f} s")
    if counts["error"]:
        raise typer.Exit(1)


def _examination(bootstrap: str | None, write: str | None, timeout: float) -> Examination:
    from platform_defs.doctor.examination import Examination
    from platform_defs.kafka.client.connection_log import NO_LOG
    from platform_defs.settings.contracts import read_contracts
    from platform_defs.settings.settings import settings
    from platform_defs.stack import stack

    chosen, running = settings(), stack.status()
    embedded = "tidegate stack status" if chosen.embeds_kafka else BOOTSTRAP
    return Examination(
        bootstrap=bootstrap or running.kafka.address,
        source="--bootstrap" if bootstrap else embedded,
        options={**NO_LOG, **chosen.librdkafka_options},
        postgres_url=running.postgres.address,
        contracts=read_contracts(),
        spark_master=chosen.spark_master,
        home=chosen.home,
        dagster_url=chosen.dagster_url,
        write=write,
        seconds=timeout,
    )
