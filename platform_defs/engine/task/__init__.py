"""What runs in a Spark task: messages are decoded, checked and made into rows."""
