"""Programs in static single assignment form, and the tree of Cells over them."""
