"""Pairs of one architecture by two hands, a file for each family; its `TWINS` are the pairs.

What a library builds is imported when a pair is made, not when its file is.
"""
