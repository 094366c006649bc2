"""How many messages with wrong bytes the tests that are named test_messages_with_wrong_bytes_harm_nothing make up."""

import os

MESSAGES = int(os.environ.get("TIDEGATE_TEST_MUTATIONS", "100000"))  # of each format
