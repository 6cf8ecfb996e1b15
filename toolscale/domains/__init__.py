"""The domains that come with the library, as data: a folder each. See `toolorchestra.toolscale.domain`."""

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
