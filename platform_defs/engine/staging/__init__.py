"""The staging area of a task: tables, and binary COPY into them."""
