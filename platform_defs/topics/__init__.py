"""Topics as code, decided without a broker: declarations, observations, rules and the plan."""
