"""Running Python that a model wrote: one interface, three backends.

    base                         the interface, limits and results
    docker, bubblewrap, process  the backends, the strongest first
    pool, channel, worker        the workers of a sandbox, how they are asked, and what runs inside
    seccomp, process_tags        filters of system calls; what was left behind by processes that are gone

`make_sandbox` chooses the strongest backend that this machine has. ``docs/sandboxes.md`` says what each isolates.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
