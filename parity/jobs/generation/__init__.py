"""Generation: a model that decodes step by step, with a state, must compute what it computes on the whole."""
