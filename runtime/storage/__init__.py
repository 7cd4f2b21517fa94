"""Files: programs saved and loaded, safetensors, outputs written whole or not at all."""
