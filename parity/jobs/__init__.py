"""What takes more than one comparison: training, generation, deployment, sweeps, locks, recordings, many processes."""
