"""toolorchestra.toolscale.domains."""
