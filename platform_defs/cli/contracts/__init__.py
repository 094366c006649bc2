"""Commands about contracts and schemas."""
