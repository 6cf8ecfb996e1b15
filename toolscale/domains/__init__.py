"""The domains that come with the library, as data: a folder each. See `toolorchestra.toolscale.domain`."""
