"""The contents of a model: protobuf messages, schemas, functions and Cells, and its values in a program."""
