"""Python source as text: expressions, statements, helper functions, and the layout of lines."""
