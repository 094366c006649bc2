"""Kafka's own scripts, as far as docs/how-to/production.md calls them: Kafka's tools are not among the broker's jars.

`write_scripts(folder)` writes kafka-acls.sh, kafka-configs.sh and kafka-topics.sh, which take these arguments as
Kafka's do, and log in as their --command-config says.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from confluent_kafka.cimpl import NewTopic

from tests.secured_kafka import acls

ROOT = Path(__file__).parent.parent
BOUND = 20.0  # seconds for one request
SECRET = re.compile(r"SCRAM-SHA-512=\[password=(?P<password>[^\]]+)\]")


def write_scripts(folder: Path) -> None:
    """Into `folder`, which is to be on the PATH."""
    for name in ("acls", "configs", "topics"):
        script = folder / f"kafka-{name}.sh"
        script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec {sys.executable} -m tests.kafka_scripts {name} "$@"\n')
        script.chmod(0o755)


def main(script: str, words: Sequence[str]) -> None:
    """What the script does with its arguments."""
    given, rest = _arguments().parse_known_args(words)
    admin = AdminClient({**_options(given.command_config), "bootstrap.servers": given.bootstrap_server})
    match script:
        case "acls":
            asked = admin.create_acls(acls([" ".join(rest)]), request_timeout=BOUND)
        case "topics":
            asked = admin.create_topics([NewTopic(given.topic, given.partitions, given.replication_factor)])
        case _:
            asked = admin.alter_user_scram_credentials([_credential(given.entity_name, given.add_config)])
    for future in asked.values():
        future.result(BOUND)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("--bootstrap-server", "--command-config", "--entity-type", "--entity-name", "--add-config"):
        parser.add_argument(name)
    for name in ("--create", "--alter"):
        parser.add_argument(name, action="store_true")
    for name in ("--partitions", "--replication-factor"):
        parser.add_argument(name, type=int)
    if "topics" in sys.argv[1:2]:
        parser.add_argument("--topic")
    return parser


def _credential(user: str, config: str) -> UserScramCredentialUpsertion:
    found = SECRET.fullmatch(config)
    assert found is not None, config
    told = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    return UserScramCredentialUpsertion(user, told, found["password"].encode(), os.urandom(16))


def _options(properties: str) -> dict[str, Any]:
    """librdkafka's form of a file for Java's clients."""
    given = dict(line.split("=", 1) for line in Path(properties).read_text().splitlines() if line)
    login = dict(re.findall(r'(\w+)="([^"]*)"', given["sasl.jaas.config"]))
    named = {"sasl.username": login["username"], "sasl.password": login["password"]}
    place = {"ssl.ca.location": given["ssl.truststore.location"], "security.protocol": given["security.protocol"]}
    return {**named, **place, "sasl.mechanism": given["sasl.mechanism"], "log_level": 0}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
