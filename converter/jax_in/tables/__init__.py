"""The primitives of JAX, one file per family."""
