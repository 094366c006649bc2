"""Groups, single messages, clients and logins."""
