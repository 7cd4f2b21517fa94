"""What the commands and the checks lean on: files, processes, deadlines, progress, code of users."""
