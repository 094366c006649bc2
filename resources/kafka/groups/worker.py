"""The process in which `resources.kafka.groups.child.KafkaGroups` asks Kafka: it reads calls of GroupClient's methods
from stdin and writes what they return or raise to stdout, pickled, until stdin ends.
"""

import pickle
import resource
import sys
from typing import Any

from platform_defs.errors import TidegateError
from resources.kafka.groups.client import GroupClient


def main() -> None:
    """Serve calls until the parent closes its end, or has ended."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # an assertion of librdkafka leaves no core file behind
    calls, answers = sys.stdin.buffer, sys.stdout.buffer
    options, timeout = pickle.load(calls)  # noqa: S301  # by the parent
    client = GroupClient({**options, "log_level": "0"}, timeout)  # what goes wrong is in the answers
    while True:
        try:
            method, arguments, options = pickle.load(calls)  # noqa: S301
        except EOFError:
            return
        answer: Any = None
        error: TidegateError | None = None
        try:
            answer = method(client, *arguments, **options)
        except TidegateError as raised:
            error = raised
        pickle.dump((answer, error), answers)
        answers.flush()


if __name__ == "__main__":
    main()
