"""toolorchestra.toolscale."""
