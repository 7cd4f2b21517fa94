"""From a torch module to a program, by torch.export."""
