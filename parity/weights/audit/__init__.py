"""What became of every tensor of a checkpoint in another, derived from their values."""
