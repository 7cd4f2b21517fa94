"""What the site makes of the code: the reference, the pictures and the quoted source."""
