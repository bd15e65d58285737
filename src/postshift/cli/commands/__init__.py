"""The commands, one file each; what is dear to import is imported when a command runs."""
