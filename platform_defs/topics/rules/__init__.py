"""What a plan of topics may not do. Pure."""
