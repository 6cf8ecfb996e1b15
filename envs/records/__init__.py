"""Episodes as records: recorded, shown, compared, and whose failure their end was.

::

    episode, recording               the record of an episode, and files of them
    recorded_calls                   its calls, given again in a replay
    unjudged, failures               whose failure an end was
    render, episode_html,            episodes as text, as a page,
    mermaid                          and graphs and trees as Mermaid
    calls_made, robustness           what was called; how attacks were withstood
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
