"""Pictures and tables of what was measured: they read, and never train."""
