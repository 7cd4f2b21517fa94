"""Why the updates of a training differ: found by replaying them with other optimizers."""
