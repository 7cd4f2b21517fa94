"""A benchmark of twins: one architecture by two hands, compared without a map.

    python -m benchmarks.twins                   all pairs
    python -m benchmarks.twins 'gpt2/*'          some of them

README.md beside this file says what the figures mean.
"""
