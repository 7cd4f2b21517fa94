"""The ops of Cell IR, one file a family."""
