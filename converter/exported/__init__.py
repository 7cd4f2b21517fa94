"""Programs of `torch.export` as modules: `module_of_program`, and `read_archive` for `.pt2` files of any origin."""
