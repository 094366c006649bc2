"""Commands about pipelines: lag, plan, verify, replay, dead letters."""
