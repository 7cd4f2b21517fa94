"""A program as the source of Cells: classes nested as the modules were, layers where the ops form a known one."""
