"""The configuration of confluent-kafka's bundled librdkafka, read through C."""

import ctypes
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import confluent_kafka

SIZE = 512


@cache
def _library() -> ctypes.CDLL:
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    (found,) = folder.glob("librdkafka-*.so.1")
    library = ctypes.CDLL(str(found))
    library.rd_kafka_conf_new.restype = library.rd_kafka_topic_conf_new.restype = ctypes.c_void_p
    return library


class Configuration:
    """An `rd_kafka_conf_t` and a topic configuration, with the library's defaults."""

    def __init__(self) -> None:
        self._conf = ctypes.c_void_p(_library().rd_kafka_conf_new())
        self._of_topic = ctypes.c_void_p(_library().rd_kafka_topic_conf_new())

    def default(self, name: str) -> str | None:
        """Return an option's value, or None if the library has no such option."""
        for get, conf in (
            (_library().rd_kafka_conf_get, self._conf),
            (_library().rd_kafka_topic_conf_get, self._of_topic),
        ):
            text, size = ctypes.create_string_buffer(SIZE), ctypes.c_size_t(SIZE)
            if get(conf, name.encode(), text, ctypes.byref(size)) == 0:
                return text.value.decode()
        return None

    def refusal(self, name: str, value: object) -> str:
        """Return the library's message if it rejects the value, otherwise an empty string."""
        message = ctypes.create_string_buffer(SIZE)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        done = _library().rd_kafka_conf_set(self._conf, name.encode(), text.encode(), message, ctypes.c_size_t(SIZE))
        return "" if done == 0 else message.value.decode()


def refusal_of(options: Mapping[str, object]) -> str:
    """Return the library's message if it cannot create a producer with the options, otherwise an empty string."""
    try:
        confluent_kafka.Producer({**options, "log_level": 0})
    except confluent_kafka.KafkaException as error:
        return error.args[0].str().removeprefix("Failed to create producer: ").strip()
    return ""
