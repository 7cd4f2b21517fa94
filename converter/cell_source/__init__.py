"""A program as the source of Cells, with classes nested like the modules, and known layers where the ops form one."""
