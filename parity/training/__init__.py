"""Steps of training, held against those of torch."""
