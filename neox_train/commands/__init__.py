"""One file a command: arguments in, one call down, a sentence out."""
