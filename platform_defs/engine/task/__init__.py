"""The code that runs in a Spark task: it decodes messages, checks them and makes rows."""
