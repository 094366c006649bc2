"""The process in which `platform_defs.groups.child.KafkaGroups` asks Kafka: it reads calls of GroupClient's methods
from stdin and writes their results or errors to the given file descriptor, pickled, until stdin ends.
"""

import os
import pickle
import resource
import sys
from typing import Any

from platform_defs.errors import InternalError, TidegateError
from platform_defs.groups.client import GroupClient


def main(descriptor: int) -> None:
    """Serve calls until the parent closes its end, or has ended."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # an assertion of librdkafka leaves no core file behind
    calls = sys.stdin.buffer
    options, timeout = pickle.load(calls)  # noqa: S301  # by the parent
    client = GroupClient(options, timeout)
    with os.fdopen(descriptor, "wb") as answers:
        while True:
            try:
                method, args, kwargs = pickle.load(calls)  # noqa: S301  # by the parent
            except EOFError:
                return
            answer: Any = None
            error: TidegateError | None = None
            try:
                answer = method(client, *args, **kwargs)
            except TidegateError as raised:
                error = raised
            except Exception as raised:  # noqa: BLE001  # a mistake of ours, raised again by the parent
                error = InternalError.of("a question about consumer groups", raised)
            pickle.dump((answer, error), answers)
            answers.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
