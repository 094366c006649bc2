"""The answers of `tidegate send`: each message as it is acknowledged, so that memory does not grow with a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from platform_defs.cli.output import Output, print_error, print_line
from platform_defs.errors.words import noun_for, plural

if TYPE_CHECKING:
    from platform_defs.messages.prepare_send import Prepared
    from platform_defs.messages.send import Sending, Sent

SHOWN = 5  # runs of numbers in a sentence


@dataclass
class Answer:
    """Prints the result of each message."""

    output: Output
    prepared: Prepared
    _begun: bool = False

    @property
    def noun(self) -> str:
        """The name of a value: value or line."""
        return self.prepared.request.lines.noun

    def add(self, results: Sequence[Sent]) -> None:
        """Print the results of some messages."""
        if self.output is Output.json:
            for item in results:
                self._write(f"{',' if self._begun else self._head()}\n    {json.dumps(_entry(item))}")
            sys.stdout.flush()
        elif shown := [_line(self.noun, item) for item in results if item.error is None]:
            print_line("\n".join(shown))

    def end(self, tail: Mapping[str, Any]) -> None:
        """Print the end of the JSON document: `tail`, the fields after the list."""
        if self.output is Output.json:
            before = "\n  " if self._begun else self._head()
            self._write(f"{before}],\n{json.dumps(tail, indent=2).removeprefix('{').lstrip(chr(10))}\n")

    def _head(self) -> str:
        prepared = self.prepared
        head = {
            "topic": prepared.topic,
            "pipeline": prepared.contract and prepared.contract.pipeline,
            "preset": prepared.chosen.preset.name,
            "partitioner": prepared.chosen.partitioner,
            "checked": prepared.is_checked,
        }
        return json.dumps(head, indent=2).removesuffix("\n}") + ',\n  "messages": ['

    def _write(self, text: str) -> None:
        self._begun = True
        sys.stdout.write(text)


def print_end(answer: Answer, sending: Sending) -> None:
    """Print how many messages were sent, and to stderr which were not, and where these are kept."""
    from platform_defs.messages.prepare_send import AS_THEY_ARE
    from platform_defs.producers.unsent.sink import kept_where

    prepared, refused, noun = answer.prepared, sending.refused, answer.noun
    kept = kept_where(prepared.unsent) if prepared.unsent else ""
    if answer.output is Output.human:
        by_key = prepared.request.key is not None and prepared.request.partition is None
        placed = f", partitioner {prepared.chosen.partitioner}" if by_key else ""
        print_line(f"{plural(sending.sent, 'message')} sent to {prepared.topic}, {_checked(prepared)}{placed}")
    answer.end(
        {
            "sent": sending.sent,
            "failed": len(sending.failed),
            "refused": refused
            and {"value": refused.number, "error_class": refused.error_class, "reason": refused.reason},
            "unsent": prepared.unsent.kept if prepared.unsent else 0,
        }
    )
    if sending.failed:
        numbers = [item.number for item in sending.failed]
        messages, values = plural(len(numbers), "message"), f"{noun_for(len(numbers), noun)} {_runs(numbers)}"
        print_error(
            f"Kafka did not acknowledge {messages} ({values}): {sending.failed[0].error}. Nothing after {noun} "
            f"{sending.last} was sent. {kept or 'They were not saved: send them again.'}"
        )
    elif kept:
        print_error(kept)
    if refused is not None:
        print_error(f"{noun} {refused}. Neither this nor anything after it was sent; {AS_THEY_ARE}")


def _checked(prepared: Prepared) -> str:
    if prepared.contract is None:
        return "unchecked: no contract reads it"
    if not prepared.is_checked:
        return "unchecked (--unchecked)"
    return f"checked against the contract of {prepared.contract.pipeline}"


def _line(noun: str, item: Sent) -> str:
    place = "sent without acknowledgement (acks=0)" if item.offset is None else f"offset {item.offset}"
    return f"{noun} {item.number}: partition {item.partition}, {place}, {_time(item)}"


def _entry(item: Sent) -> Mapping[str, Any]:
    error = None if item.error is None else getattr(item.error, "reason", "") or type(item.error).__name__
    place = {"partition": item.partition, "offset": item.offset, "timestamp": _time(item)}
    return {"value": item.number, **place, "error": error}


def _time(item: Sent) -> str | None:
    if item.timestamp is None:
        return None
    return datetime.fromtimestamp(item.timestamp / 1_000, UTC).isoformat(timespec="milliseconds")


def _runs(numbers: Iterable[int]) -> str:
    """Return ascending numbers as `1, 3 to 5`."""
    runs = list[list[int]]()
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    shown = [" to ".join(map(str, run)) for run in runs[:SHOWN]]
    return ", ".join(shown) + (", ..." if len(runs) > SHOWN else "")
