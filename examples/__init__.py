"""Examples. Each one is a script that runs by itself."""
