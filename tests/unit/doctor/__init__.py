"""What the doctor concludes."""
