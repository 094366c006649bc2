"""Asks the registry for schemas that neither the process nor the ledger has, and tells existing, missing and refused
ones apart, and a registry that is away.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from platform_defs.errors import RegistryAway, SchemasNotGiven
from platform_defs.formats.blocks.writer_schema import WriterSchema
from resources.registry.address import Registry
from resources.registry.answers import BUSY, OF_A_GATEWAY
from resources.registry.client import AT_ONCE, RegistryClient, client_of
from resources.registry.cooldown import Cooldown

MAX_LAGGING = 200  # ids that are asked again: a follower lags behind by few
MAX_UNKNOWN = 50_000  # ids of a task that the registry may lack: about a minute
AT_A_TIME = 10 * AT_ONCE  # ids between two checks of the time limit

_away = Cooldown()  # the registries that gave this process no answer in its full wait


@dataclass
class Lookup:
    """The queries of one task. Picklable."""

    address: Registry | None  # None: there is no registry
    subject: str | None  # context of the ids; None: the default one
    pipeline: str
    pauses: tuple[float, ...]  # seconds before an id that the registry does not have is asked again
    replays: bool  # messages that were read before, and are older than any follower's lag
    accepts: bool  # messages whose schema is not given become dead letters
    most_seconds: float  # limit for asking for ids that the registry does not have
    waited: bool = False  # true after one wait: the task's messages are then older than any follower's lag
    unknown: int = 0  # ids that the registry was asked for and does not have
    seconds: float = 0.0  # spent on them
    given: str | None = None  # an id that the registry has

    def ask(self, keys: Sequence[str]) -> dict[str, WriterSchema]:
        """Return the schemas among `keys` that the registry has; in a replay, none if there is no registry. Raises
        RegistryAway, SchemasNotGiven.
        """
        if self.address is None and self.replays:
            return {}
        client = self.client(f"schema {keys[0]}")
        try:
            return self._those_there_are(client, keys)
        except RegistryAway as away:
            if not _away.has(str(self.address)):  # a minute after the first, the full wait applies again
                _away.note(str(self.address))
            raise (away.of_replay() if self.replays else away.of_batch()) from None

    def client(self, what: str = "a schema") -> RegistryClient:
        """Return the registry's client, with less patience if it has just given no answer. Raises RegistryAway if there
        is no registry.
        """
        if self.address is None:
            raise RegistryAway.nowhere(what)
        client = client_of(self.address)
        return client.hurried(self.address.pace.again) if _away.has(str(self.address)) or _is_another_try() else client

    def _those_there_are(self, client: RegistryClient, keys: Sequence[str]) -> dict[str, WriterSchema]:
        """Return the existing schemas. The first ids that a task misses are asked three times."""
        answers = self._in_parts(client, keys)
        for pause in () if self.replays or self.waited else self.pauses:
            missing = [key for key, schema in answers.items() if not schema]
            if not missing:
                break
            self.waited = True
            time.sleep(pause)  # no registry reports that a follower has caught up
            answers |= self._in_parts(client, _smallest_first(missing)[:MAX_LAGGING])
        found = {key: schema for key, schema in answers.items() if schema}
        self.unknown += len(answers) - len(found)
        self._refuse_too_many()
        return found

    def _in_parts(self, client: RegistryClient, keys: Sequence[str]) -> dict[str, WriterSchema | None]:
        """Return the registry's answers for these, as many as there is time for."""
        answers = dict[str, WriterSchema | None]()
        for part in _parts(_smallest_first(keys)):
            self._refuse_too_many(sum(schema is None for schema in answers.values()))
            if self.seconds > self.most_seconds:
                break
            began = time.monotonic()
            found = self._answers(client, part)
            if not all(found.values()):
                self.seconds += time.monotonic() - began
            answers |= found
            self.given = next((key for key, schema in found.items() if schema), self.given)
        return answers

    def _refuse_too_many(self, more: int = 0) -> None:
        """Raise SchemasNotGiven if a batch would still be asking when its time is over, or longer than a registry can
        have schemas; unless ids without an answer become dead letters, as they did before in a replay.
        """
        if self.accepts or self.replays:
            return
        if self.unknown + more > MAX_UNKNOWN:
            raise SchemasNotGiven.too_many(self.pipeline, MAX_UNKNOWN)
        if self.seconds > self.most_seconds:
            raise SchemasNotGiven.too_many(self.pipeline, self.unknown + more, self.seconds)

    def _answers(self, client: RegistryClient, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        """Return the registry's answers for these ids. If it answers for others but not for one of these, that one is
        at fault (SchemasNotGiven), or None if such messages become dead letters. Raises RegistryAway.
        """
        try:
            return client.schemas(keys, self.subject)
        except RegistryAway as away:
            if not self._is_of_one(client, keys, away):
                raise
            hurried = client.hurried(client.pace.quickly)  # the registry is there, and the full wait is over
            return self._accepted(hurried, keys, away) if self.accepts or self.replays else self._given(hurried, keys)

    def _accepted(
        self, client: RegistryClient, keys: Sequence[str], away: RegistryAway
    ) -> Mapping[str, WriterSchema | None]:
        """As `_answers`, each separately: None for one that the registry refuses."""
        answers = client.given(keys, self.subject, silence=self.accepts)
        if not all(answers.values()) and not client.is_there(self.subject):  # it went away meanwhile
            raise away
        return answers

    def _given(self, client: RegistryClient, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        """As `_answers`, a second time: the registry may have been away until now."""
        try:
            return client.schemas(keys, self.subject)
        except RegistryAway as away:
            if not self._is_of_one(client, keys, away):
                raise
            raise SchemasNotGiven.refused(self.pipeline, away.seen) from away

    def _is_of_one(self, client: RegistryClient, keys: Sequence[str], away: RegistryAway) -> bool:
        """Return True if the registry fails to answer only for one id: it answers for others after the wait for this
        one. A busy server's answer says nothing about an id; nor does a gateway's, unless another of `keys`, or one
        that the registry had before, is answered.
        """
        if away.status in BUSY or not client.is_there(self.subject):
            return False
        others = {*keys, self.given or keys[0]}
        return away.status not in OF_A_GATEWAY or bool(client.answered(others, self.subject, client.pace.quickly))


def _smallest_first(keys: Sequence[str]) -> list[str]:
    """Return the keys in order of size. A registry counts its ids from 1: it more likely has the small ones."""
    return sorted(keys, key=lambda key: (len(key), key))


def _parts(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[start : start + AT_A_TIME] for start in range(0, len(keys), AT_A_TIME))


def _is_another_try() -> bool:
    """Return True if Spark repeats the task, in a new process: the first try has waited."""
    from pyspark import TaskContext  # loaded wherever tasks run

    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0
