"""The programs of a bundle: one program in Python, JavaScript and C++, which doesn't know cellbridge."""
