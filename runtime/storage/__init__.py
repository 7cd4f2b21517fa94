"""Files: saving and loading programs, safetensors, atomic writes."""
