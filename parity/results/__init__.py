"""What a comparison found, as data."""
