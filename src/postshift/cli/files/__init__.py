"""Tables of rows in files: their formats, their columns, and what a fit or a prediction reads of them."""
