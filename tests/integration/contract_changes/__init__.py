"""Tests of contracts that change, and the resulting tables."""
