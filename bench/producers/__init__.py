"""Each preset's results under real faults on three real brokers, and the speed of one option at a time."""
