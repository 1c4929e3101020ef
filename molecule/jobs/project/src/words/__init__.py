"""Words and their examples."""
