"""Tests of topics, groups, brokers, logins and rights."""
