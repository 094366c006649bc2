"""The schema `tidegate`: its queries and statements, a module for each subject."""
