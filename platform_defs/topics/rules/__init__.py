"""The rules that a plan of topics must keep. Pure."""
