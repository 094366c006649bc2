"""`tidegate init`: a small working project, or what an existing Dagster project lacks."""
