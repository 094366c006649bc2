"""Kafka's own scripts, as far as docs/how-to/production.md calls them.

The broker's jars contain only the tool for kafka-configs.sh. `write_scripts(folder)` writes that script, and
replacements for kafka-acls.sh and kafka-topics.sh, which take Kafka's arguments and log in as their --command-config
says. Each script appends its arguments to the file ARGUMENTS beside it.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from platform_defs.stack import jars, java
from tests.support.kafka.secured_kafka import acls

ROOT = Path(__file__).parents[3]
OURS = ("acls", "topics")
BOUND = 20.0  # seconds for one request
ARGUMENTS = "arguments.txt"


def write_scripts(folder: Path) -> None:
    """Write the scripts into `folder`, which must be on the PATH."""
    classpath = jars.broker_classpath(lambda _: None)
    commands = {
        name: f'PYTHONPATH="{ROOT}" exec {sys.executable} -m tests.support.kafka.kafka_scripts {name}' for name in OURS
    }
    commands["configs"] = f'exec "{java.find_java()}" -cp "{classpath}" kafka.admin.ConfigCommand'
    for name, command in commands.items():
        script = folder / f"kafka-{name}.sh"
        script.write_text(f'#!/bin/sh\necho "$@" >> "{folder / ARGUMENTS}"\n{command} "$@"\n')
        script.chmod(0o755)


def main(script: str, words: Sequence[str]) -> None:
    """Execute one script with its arguments."""
    given, rest = _arguments().parse_known_args(words)
    admin = AdminClient({**_options(given.command_config), "bootstrap.servers": given.bootstrap_server})
    match script:
        case "acls":
            asked = admin.create_acls(acls([" ".join(rest)]), request_timeout=BOUND)
        case _:
            asked = admin.create_topics([NewTopic(given.topic, given.partitions, given.replication_factor)])
    for future in asked.values():
        future.result(BOUND)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("--bootstrap-server", "--command-config"):
        parser.add_argument(name)
    parser.add_argument("--create", action="store_true")
    for name in ("--partitions", "--replication-factor"):
        parser.add_argument(name, type=int)
    if "topics" in sys.argv[1:2]:
        parser.add_argument("--topic")
    return parser


def _options(properties: str) -> dict[str, Any]:
    """Return librdkafka's options for a properties file of a Java client."""
    given = dict(line.split("=", 1) for line in Path(properties).read_text().splitlines() if line)
    login = dict(re.findall(r'(\w+)="([^"]*)"', given["sasl.jaas.config"]))
    named = {"sasl.username": login["username"], "sasl.password": login["password"]}
    place = {"ssl.ca.location": given["ssl.truststore.location"], "security.protocol": given["security.protocol"]}
    return {**named, **place, "sasl.mechanism": given["sasl.mechanism"], "log_level": 0}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
