"""Examples, each a script that runs by itself."""
