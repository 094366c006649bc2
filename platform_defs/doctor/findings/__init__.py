"""From the observed state of each system to findings. Pure; reads no system."""
