"""Topics as code: rules and plans."""
