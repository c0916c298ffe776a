"""Training: one loop, and runs that are folders and can be stopped at any point."""
