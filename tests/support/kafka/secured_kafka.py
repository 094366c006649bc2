"""A broker with TLS, password authentication and ACLs.

The user `admin` may do everything; `tidegate` has no right until a test grants it. Both log in by SASL_SSL with
SCRAM-SHA-512 at `port`; at `oauth_port`, by OAUTHBEARER with any unsigned token, whose claim `sub` is the user.

    with secured_kafka(tmp_path_factory.mktemp("secured")) as kafka:
        world = kafka.world(world)                        # as the user tidegate
        with kafka.granted("--operation Read --operation Describe --topic payments"):
            world.drain(pipeline)
"""

import argparse
import shlex
import signal
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from bench.producers.three_brokers import free_ports
from platform_defs.stack import jars, java, processes
from platform_defs.stack import kafka_servers as kafka
from platform_defs.stack.endpoints import Endpoints
from platform_defs.stack.kafka_node import PROTOCOLS, Node, Program, new_cluster
from platform_defs.stack.state import Server
from tests.support.kafka.fake_servers import certificate
from tests.support.waiting import wait_for
from tests.support.world import World

USER, ADMIN = "tidegate", "admin"
PASSWORDS = {USER: "tidegates secret", ADMIN: "admins secret"}
START_SECONDS = 60.0
BOUND = 20.0  # seconds for one request of the administrator

# Brokers and controllers use separate listeners without a password among themselves: those are not under test.
PROPERTIES = """\
listeners={ours},SECURED://127.0.0.1:{port},OAUTH://127.0.0.1:{oauth_port}
advertised.listeners={ours},SECURED://127.0.0.1:{port},OAUTH://127.0.0.1:{oauth_port}
listener.security.protocol.map={protocols},SECURED:SASL_SSL,OAUTH:SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={pem}
listener.name.secured.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.secured.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.oauth.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="nobody";
listener.name.oauth.oauthbearer.sasl.server.callback.handler.class=\
org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
"""


@dataclass(frozen=True)
class SecuredKafka:
    """The broker's ports and certificate, and the actions of its administrator."""

    port: int
    oauth_port: int
    authority: Path  # the certificate of the authority that signed the broker's

    def options(self, user: str = USER) -> dict[str, str]:
        """Return librdkafka's options for this user."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
            "ssl.ca.location": str(self.authority),
        }

    def oauth_options(self) -> dict[str, str]:
        """Return librdkafka's options for OAUTHBEARER, without the source of its token."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.oauth_port}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "ssl.ca.location": str(self.authority),
        }

    def environment(self, options: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the same options as TIDEGATE_KAFKA_* variables, for the user tidegate."""
        given = self.options() if options is None else options
        return {f"TIDEGATE_KAFKA_{name.upper().replace('.', '_')}": value for name, value in given.items()}

    def endpoints(self, of: Endpoints, options: Mapping[str, str] | None = None) -> Endpoints:
        """Return `of` with this Kafka, for the user tidegate."""
        given = dict(self.options() if options is None else options)
        servers = given.pop("bootstrap.servers")
        return replace(of, bootstrap_servers=servers, librdkafka={**given, "log_level": "0"})

    def world(self, of: World, user: str = USER) -> World:
        """Return `of` on this Kafka, as this user."""
        return replace(of, endpoints=self.endpoints(of.endpoints, self.options(user)))

    def grant(self, *rights: str) -> None:
        """Add ACLs for the user tidegate and wait until the broker applies them. `rights` are arguments of
        kafka-acls.sh: `--operation Read --operation Describe --topic payments --resource-pattern-type prefixed`.
        """
        wanted = acls(rights)
        for future in self._admin.create_acls(wanted, request_timeout=BOUND).values():
            future.result()
        wait_for(lambda: set(wanted) <= set(self.rights()), f"{rights} are granted")

    def revoke(self, *rights: str) -> None:
        """Remove ACLs and wait until the broker applies the removal."""
        gone = acls(rights)
        for future in self._admin.delete_acls(list(map(_filter, gone)), request_timeout=BOUND).values():
            future.result()
        wait_for(lambda: not set(gone) & set(self.rights()), f"{rights} are taken away")

    def rights(self) -> list[AclBinding]:
        """Return every ACL."""
        return list(self._admin.describe_acls(EVERY, request_timeout=BOUND).result())

    def revoke_all(self) -> None:
        """Remove every ACL."""
        for future in self._admin.delete_acls([EVERY], request_timeout=BOUND).values():
            future.result()
        wait_for(lambda: not self.rights(), "every right is taken away")

    @contextmanager
    def granted(self, *rights: str) -> Generator[None]:
        """Grant these rights and no others while the block runs."""
        self.revoke_all()
        self.grant(*rights)
        try:
            yield
        finally:
            self.revoke_all()

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({**self.options(ADMIN), "log_level": 0})


_ANY: Any = None  # any name; the library's types do not allow None
EVERY = AclBindingFilter(
    *(ResourceType.ANY, _ANY, ResourcePatternType.ANY, _ANY, _ANY, AclOperation.ANY, AclPermissionType.ANY)
)
CLUSTER = "kafka-cluster"


def acls(rights: Iterable[str]) -> list[AclBinding]:
    """Return the ACLs that kafka-acls.sh would add for these arguments; the default principal is User:tidegate."""
    found = (acl for right in rights for acl in _acls(_ARGUMENTS.parse_args(shlex.split(right))))
    return list(dict.fromkeys(found))  # an ACL granted by two arguments is granted once


def _acls(given: argparse.Namespace) -> list[AclBinding]:
    places = [
        *((ResourceType.TOPIC, name) for name in given.topic),
        *((ResourceType.GROUP, name) for name in given.group),
        *((ResourceType.TRANSACTIONAL_ID, name) for name in given.transactional_id),
        *([(ResourceType.BROKER, CLUSTER)] if given.cluster else []),
    ]
    pattern = ResourcePatternType[given.resource_pattern_type.upper()]
    operations = [AclOperation[_constant(name)] for name in given.operation]
    return [
        AclBinding(kind, name, pattern, given.allow_principal, "*", operation, AclPermissionType.ALLOW)
        for kind, name in places
        for operation in operations
    ]


def _constant(operation: str) -> str:
    """Convert a name such as DescribeConfigs to DESCRIBE_CONFIGS."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in operation).upper().strip("_")


def _arguments() -> argparse.ArgumentParser:
    """Return a parser for the arguments of kafka-acls.sh that are used here."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    for name in ("--operation", "--topic", "--group", "--transactional-id"):
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--bootstrap-server")
    parser.add_argument("--command-config")
    parser.add_argument("--allow-principal", default=f"User:{USER}")
    parser.add_argument("--resource-pattern-type", default="literal")
    return parser


_ARGUMENTS = _arguments()


def _filter(acl: Any) -> AclBindingFilter:
    where = (acl.restype, acl.name, acl.resource_pattern_type)
    return AclBindingFilter(*where, acl.principal, acl.host, acl.operation, acl.permission_type)


@contextmanager
def secured_kafka(home: Path) -> Generator[SecuredKafka]:
    """Run the broker, with its data in `home`, while the block runs."""
    port, oauth_port, *own = free_ports(5)
    node, program = Node(home, 1, (Server(*own),)), Program(java.find_java(), jars.broker_classpath(lambda _: None))
    pem = certificate(home, "127.0.0.1")
    node.write_properties(
        PROPERTIES.format(ours=node.listeners, port=port, oauth_port=oauth_port, protocols=PROTOCOLS, pem=pem)
    )
    _format(node, program)
    broker = processes.start(node.run(program), node.console, cwd=node.folder)
    try:
        wait_for(lambda: not processes.is_running(broker) or kafka.answers(own[0]), "the broker answers")
        assert processes.is_running(broker), processes.failed("the secured broker", [node.console])
        yield SecuredKafka(port, oauth_port, pem)
    finally:
        processes.end([broker], signal.SIGKILL, within=10.0)  # its data goes with `home`


def _format(node: Node, program: Program) -> None:
    """Format the storage with the users, so that they are in the cluster's metadata from its first record."""
    users = [f"SCRAM-SHA-512=[name={user},password={word}]" for user, word in PASSWORDS.items()]
    scram = [word for user in users for word in ("--add-scram", user)]
    command = [*node.format(program, new_cluster(node.servers)), *scram]
    formatting = processes.start(command, node.console, cwd=node.folder)
    assert formatting.wait(START_SECONDS) == 0, processes.failed("Kafka's format", [node.console])
