"""toolorchestra.envs.sources."""
