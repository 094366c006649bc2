"""Tests of messages of all kinds: rows, or dead letters with a reason."""
