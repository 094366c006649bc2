"""What tests of several folders share: the real systems, commands, and waiting for events."""
