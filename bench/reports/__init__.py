"""What benchmarks write: aims, pages of docs/explanation, and plots."""
