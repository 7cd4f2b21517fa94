"""What corresponds in two networks, as data: Cells, layers, results, and the text of a map."""
