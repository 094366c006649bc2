"""The number of corrupted messages that tests named test_messages_with_wrong_bytes_harm_nothing generate."""

import os

MESSAGES = int(os.environ.get("TIDEGATE_TEST_MUTATIONS", "40000"))  # per format
