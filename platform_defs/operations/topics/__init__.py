"""Planning, application, listing, import and deletion of topics."""
