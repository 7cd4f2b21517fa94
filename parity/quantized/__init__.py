"""Files of quantized networks held against the float files that they were made of."""
