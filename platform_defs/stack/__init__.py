"""The servers to work with: given by TIDEGATE_*, or embedded (`tidegate stack`, `tidegate ui`)."""
