"""The benchmarks: aims, plans and pages."""
