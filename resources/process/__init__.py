"""This process: settings, environment, user, home folder, and TLS of Postgres addresses."""
