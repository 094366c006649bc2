"""Topics, groups, brokers, logins and rights."""
