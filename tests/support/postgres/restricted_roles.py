"""A database with an owner, a publisher and a reader, each with the rights that `tidegate rights` prints."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.database.rights import Roles
from platform_defs.engine.lease.table_claims import create_unclaimed
from tests.support.world import World


@dataclass(frozen=True)
class Company:
    """A database with three roles. `urls` is by role."""

    database: str
    urls: Mapping[str, str]
    roles: Roles
    world: World

    def as_(self, role: str) -> World:
        """Return the world as this role."""
        return replace(self.world, endpoints=replace(self.world.endpoints, postgres_url=self.urls[role]))

    def grant(self, *pipelines: Pipeline) -> None:
        """Act as the owner by the page: migrate, create the tables, and execute the printed statements."""
        owner = self.as_("owner")
        owner.ledger.migrate()
        contracts = [pipeline.contract for pipeline in pipelines]
        create_unclaimed(self.urls["owner"], contracts)
        for statements in self.roles.grants(contracts, dagster=self.has_dagster):
            self.execute("owner", statements)

    @property
    def has_dagster(self) -> bool:
        """True if Dagster's tables exist."""
        (found,) = self.as_("administrator").rows("select to_regnamespace('dagster') is not null as there")
        return found["there"]

    def execute(self, role: str, statement: str) -> None:
        with psycopg.connect(self.urls[role], autocommit=True) as session:
            session.execute(statement.encode())


@contextmanager
def new_company(world: World) -> Generator[Company]:
    """Create roles without rights, except that the owner may create schemas and is a member of the publisher's role."""
    name = f"company_{uuid4().hex[:10]}"
    roles = {role: f"{name}_{role}" for role in ("owner", "publisher", "reader")}
    with psycopg.connect(world.endpoints.postgres_url, autocommit=True) as session:
        for role in roles.values():
            session.execute(f"create role {role} login nosuperuser password 'secret'".encode())
        session.execute(f"create database {name}".encode())
        session.execute(f"revoke all on database {name} from public".encode())
        session.execute(f"grant connect on database {name} to {', '.join(roles.values())}".encode())
        session.execute(f"grant create, temporary on database {name} to {roles['owner']}".encode())
        session.execute(f"grant {roles['publisher']} to {roles['owner']}".encode())
        given = urlsplit(world.endpoints.postgres_url)._replace(path=f"/{name}")
        place = given.netloc.rpartition("@")[2]
        urls = {role: given._replace(netloc=f"{roles[role]}:secret@{place}").geturl() for role in roles}
        yield Company(name, {**urls, "administrator": given.geturl()}, Roles(**roles), world)
        session.execute(f"drop database {name} with (force)".encode())
        session.execute(f"drop role {', '.join(roles.values())}".encode())


def clerk_of(world: World, pipeline: Pipeline) -> str:
    """Create a role with all rights to the pipeline's tables and the ledger, which owns none of them; return the URL of
    its sessions.
    """
    clerk = f"{pipeline.name}_clerk"
    world.rows(f"create role {clerk} login password 'x'")
    world.rows(f"grant all on schema {pipeline.name}, tidegate to {clerk}")
    world.rows(f"grant all on all tables in schema {pipeline.name}, tidegate to {clerk}")
    given = urlsplit(world.endpoints.postgres_url)
    return given._replace(netloc=f"{clerk}:x@{given.netloc.rpartition('@')[2]}").geturl()
