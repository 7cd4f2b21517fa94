"""Networks that decode step by step: each file has `build()`, `inputs()` and `decode(module, tokens, state, mask)`."""
