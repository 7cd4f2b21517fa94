"""JAX as a side: networks of Flax and Equinox, and functions, recorded Cell by Cell and compared with torch."""
