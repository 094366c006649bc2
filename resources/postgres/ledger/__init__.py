"""The schema `tidegate`: questions and statements, a module for each subject."""
