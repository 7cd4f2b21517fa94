"""The options of commands: groups of them, the text of `--help`, and which can't be combined."""
