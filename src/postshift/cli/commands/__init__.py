"""The commands, one file each; slow imports happen when a command runs."""
