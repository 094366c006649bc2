"""What `tidegate doctor` concludes: from what was seen of each system to findings, in words. Pure; looks at nothing."""
