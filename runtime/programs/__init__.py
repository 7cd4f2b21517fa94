"""What is done with a program by NumPy alone: run it, differentiate it, call it, put one into another."""
