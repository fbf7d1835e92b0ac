"""Benchmarks: peers side by side in one process, alternating, each result checked first."""
