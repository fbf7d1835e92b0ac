"""Benchmarks: stencilx and its peers side by side in one process, alternating, each result checked first.

row.py      what a row is: sizes, ways to the same result, the expected result, targets
rows/       the rows, a module for each family; peers/ has the hand-written loops that they are compared with
measure.py  one row in a process of its own; timing.py is the clock
report.py   tables, Markdown, JSON; chart.py the picture
__main__.py the command line: python -m benchmarks --help
"""
