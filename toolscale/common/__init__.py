"""What all of the library stands on: errors, files that appear whole, claims, texts and numbers.

::

    errors, flags                    errors that say what was expected, and how flags are named in them
    writing, claim                   files that appear whole or not at all, and who may write them
    append_only, jsonl, yaml_reader  files that grow, lines of JSON, YAML
    urls, visible                    addresses; text from a model made harmless for terminals
    float_sums, intervals            sums and intervals of numbers
    svg_themes                       drawings that follow a page's light or dark theme
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
