"""What other modules hide."""
