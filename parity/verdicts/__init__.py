"""The verdict on one tensor, or on one Python value."""
