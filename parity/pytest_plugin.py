"""pytest plugin: collects parity files, one item per Cell and side."""
