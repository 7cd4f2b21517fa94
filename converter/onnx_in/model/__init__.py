"""What a model holds: protobuf messages, schemas, functions and Cells, and what its values are in a program."""
