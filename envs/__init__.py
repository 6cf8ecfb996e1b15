"""toolorchestra.envs."""
