"""The topic and the tables, as verify reads them."""
