"""Queries the registry for schemas that neither the process nor the ledger has, and tells existing, missing and refused
ones apart, and a registry that is unavailable. `policy` has what follows.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from platform_defs.errors import RegistryAway, SchemasNotGiven
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.registry.answers import BUSY, OF_A_GATEWAY
from platform_defs.registry.client import AT_ONCE, RegistryClient, client_of
from platform_defs.registry.cooldown import Cooldown
from platform_defs.registry.policy import ACCEPT, ACCEPT_REPLAY, COMPARE, MISSING, RUN, Policy
from platform_defs.settings.registry_address import Registry

MAX_LAGGING = 200  # ids that are asked again: a follower lags behind by few
MAX_UNKNOWN = 50_000  # ids of a task that the registry may lack: about a minute
AT_A_TIME = 10 * AT_ONCE  # ids between two checks of the time limit

_away = Cooldown()  # the registries that gave this process no answer in its full wait


@dataclass
class Lookup:
    """The queries of one task. Picklable."""

    address: Registry | None  # None: there is no registry
    subject: str  # the contract's: it has the context of the ids
    pipeline: str  # the live one
    policy: Policy
    pauses: tuple[float, ...]  # seconds before an id that the registry does not have is asked again
    most_seconds: float  # limit for asking for ids that the registry does not have
    waited: bool = field(default=False, init=False)  # after one wait, messages are older than any follower's lag
    unknown: int = field(default=0, init=False)  # ids that the registry was asked for and does not have
    seconds: float = field(default=0.0, init=False)  # spent on them
    given: str | None = field(default=None, init=False)  # an id that the registry has

    def accepting(self) -> "Lookup":
        """Return the lookup for a batch about which a person has decided."""
        return replace(self, policy=ACCEPT_REPLAY if self.policy.replays else ACCEPT)

    def ask(self, keys: Sequence[str]) -> dict[str, WriterSchema]:
        """Return the schemas among `keys` that the registry has. The first ids that a task misses are asked three
        times. Raises RegistryAway, SchemasNotGiven.
        """
        if self.address is None and self.policy.nowhere is MISSING:
            return {}
        client = self.client(f"schema {keys[0]}")
        try:
            answers = self._in_parts(client, keys)
            for pause in () if self.policy.replays or self.waited else self.pauses:
                missing = [key for key, schema in answers.items() if not schema]
                if not missing:
                    break
                self.waited = True
                time.sleep(pause)  # no registry reports that a follower has caught up
                answers |= self._in_parts(client, _smallest_first(missing)[:MAX_LAGGING])
        except RegistryAway as away:
            if not _away.has(str(self.address)):  # a minute after the first, the full wait applies again
                _away.note(str(self.address))
            raise self.of_messages(away) from None
        found = {key: schema for key, schema in answers.items() if schema}
        self.unknown += len(answers) - len(found)
        self._refuse_too_many()
        return found

    def client(self, what: str = "a schema") -> RegistryClient:
        """Return the registry's client, with less patience if it has just given no answer. Raises RegistryAway if there
        is no registry.
        """
        if self.address is None:
            raise RegistryAway(
                f"{what} cannot be looked up, since no schema registry is configured: set TIDEGATE_REGISTRY_URL, or "
                "start the embedded one (tidegate stack up). Nothing was published; the batch will be read again"
            )
        client = client_of(self.address)
        return client.hurried(self.address.pace.again) if _away.has(str(self.address)) or _is_another_try() else client

    def of_messages(self, away: RegistryAway) -> RegistryAway:
        """Return the same error, with the consequence for the messages that are being read."""
        if not self.policy.replays:
            rest = "Nothing was published and nothing became a dead letter; the batch will be read again"
        else:  # a schema may have been registered since its messages became dead letters: a person decides
            rest = (
                "Nothing was changed. Replay again once the registry answers. To replay without a registry, unset "
                "TIDEGATE_REGISTRY_URL and stop the embedded one: messages whose schema is not in the ledger then stay "
                "dead letters"
            )
        return away.adding(rest)

    def _in_parts(self, client: RegistryClient, keys: Sequence[str]) -> dict[str, WriterSchema | None]:
        """Return the registry's answers for these, as many as there is time for."""
        answers, ordered = dict[str, WriterSchema | None](), _smallest_first(keys)
        for start in range(0, len(ordered), AT_A_TIME):
            self._refuse_too_many(sum(schema is None for schema in answers.values()))
            if self.seconds > self.most_seconds:
                break
            began = time.monotonic()
            found = self._answers(client, ordered[start : start + AT_A_TIME])
            if not all(found.values()):
                self.seconds += time.monotonic() - began
            answers |= found
            self.given = next((key for key, schema in found.items() if schema), self.given)
        return answers

    def _refuse_too_many(self, more: int = 0) -> None:
        """Raise SchemasNotGiven if a batch would still be asking when its time is over, or longer than a registry can
        have schemas; unless ids without an answer become dead letters, as they did before in a replay.
        """
        if self.policy.doubtful is MISSING:
            return
        ids, took = self.unknown + more, ""
        if ids > MAX_UNKNOWN:
            ids = MAX_UNKNOWN
        elif self.seconds > self.most_seconds:
            took = f" (the registry took {self.seconds:.0f} s to report this)"
        else:
            return
        raise SchemasNotGiven.of(
            self.pipeline,
            f"one task's messages name more than {ids:,} different schemas that the registry does not have{took}: they "
            "are not framed as the contract says, or are garbage. If the contract's framing is wrong, correct it",
        )

    def _answers(self, client: RegistryClient, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        """Return the registry's answers for these ids. If it answers for others but not for one of these, they are
        queried again, since the registry may have been unavailable until now; then that one is at fault, and the policy
        applies. Raises RegistryAway, SchemasNotGiven.
        """
        try:
            return client.lookup(keys, RUN, self.subject)
        except RegistryAway as away:
            if not self._is_of_one(client, keys, away):
                raise
            first = away
        client = client.hurried(client.registry.pace.quickly)  # the registry is there, and the full wait is over
        try:
            answers = client.lookup(keys, self.policy, self.subject)
        except RegistryAway as away:
            if self.policy.refused is MISSING or not self._is_of_one(client, keys, away):
                raise
            raise SchemasNotGiven.of(
                self.pipeline,
                f"{away.seen}. The registry answers for other schemas. Give Tidegate's user access to this one, repair "
                "it in the registry, or delete it there permanently (its messages then become dead letters)",
            ) from away
        if not all(answers.values()) and not client.is_there(self.subject):  # it went away meanwhile
            raise first
        return answers

    def _is_of_one(self, client: RegistryClient, keys: Sequence[str], away: RegistryAway) -> bool:
        """Return True if the registry fails to answer only for one id: it answers for others after the wait for this
        one. A busy server's answer says nothing about an id; nor does a gateway's, unless another of `keys`, or one
        that the registry had before, is answered.
        """
        if away.status in BUSY or not client.is_there(self.subject):
            return False
        if away.status not in OF_A_GATEWAY:
            return True
        others = {*keys, self.given or keys[0]}
        return bool(client.lookup(others, COMPARE, self.subject, client.registry.pace.quickly))


def _smallest_first(keys: Sequence[str]) -> list[str]:
    """Return the keys in order of size. A registry counts its ids from 1: it more likely has the small ones."""
    return sorted(keys, key=lambda key: (len(key), key))


def _is_another_try() -> bool:
    """Return True if Spark repeats the task, in a new process: the first try has waited."""
    from pyspark import TaskContext  # loaded wherever tasks run

    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0
