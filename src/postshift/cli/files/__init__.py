"""Tables of rows in files: their formats, their columns, and the parts that a fit or a prediction reads."""
