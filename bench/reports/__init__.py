"""The output of benchmarks: aims, pages of docs/explanation, and plots."""
