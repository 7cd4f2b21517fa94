"""Cell IR, its ops, autodiff and executors."""
