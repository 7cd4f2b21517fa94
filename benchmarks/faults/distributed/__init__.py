"""Networks on several processes, as model files for `parity run --ranks`."""
