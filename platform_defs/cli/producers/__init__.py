"""Commands about producers: presets and made-up messages."""
