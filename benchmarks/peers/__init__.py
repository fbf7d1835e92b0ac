"""Loops written by hand, that the rows are compared with: for all cores by numba, for one core in C."""
