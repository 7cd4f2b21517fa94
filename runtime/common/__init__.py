"""What everything eager is made of: dtypes, tensors, parameters, initializers, seeds."""

from .. import functional as functional  # gives Tensor its operators and methods
