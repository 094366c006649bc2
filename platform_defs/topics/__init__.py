"""Topics as code, decided without a broker: what is declared, what was observed, the rules, and the plan."""
