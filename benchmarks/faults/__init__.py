"""A benchmark of planted faults: what a comparison finds of them, where it places them, and what it says of the cause.

    python -m benchmarks.faults                  all cases, in a table by kind
    python -m benchmarks.faults --list           names of the cases
    python -m benchmarks.faults --only 'vit/*'   some of them, by kind or by name

README.md beside this file says what the figures mean.
"""
