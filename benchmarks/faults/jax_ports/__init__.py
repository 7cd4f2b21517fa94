"""Networks of `networks`, ported to JAX by hand; `build(weights)` returns a port with the network's weights."""
