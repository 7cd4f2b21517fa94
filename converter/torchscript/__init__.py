"""TorchScript as modules: `module_of_script` runs the graph of a scripted or traced module with torch's operators."""
