"""What the experiments on photographs share: splits, networks, coordinates and bases, post-shifts, tables."""
