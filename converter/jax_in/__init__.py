"""From JAX: a function is traced to its jaxpr, and each primitive is translated to ops."""
