"""A peer's side of the protocol with the benchmark: a line of JSON for each request and each answer. Only Python's own
library: this runs in the peer's environment.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any, TypedDict


class Task(TypedDict):
    """The request to carry the whole of this topic into this table."""

    brokers: str
    topic: str
    postgres_url: str
    table: str  # in the schema bench
    messages: int  # in the topic


def answer_each(carry: Callable[[Task], None]) -> None:
    """Report that this process is ready, then carry each request, until the input ends.

    Standard output belongs to the answers: what a library prints there goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    _say(answers, ready=True)
    for line in sys.stdin:
        carry(json.loads(line))
        _say(answers, done=True)


def _say(answers: Any, **what: bool) -> None:
    answers.write(json.dumps(what) + "\n")
