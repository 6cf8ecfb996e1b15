"""Baselines of other papers, as policies: each names its paper and states what is simplified.

::

    RouteLLM, Avengers, IRTRouter       send a question to one expert, by evaluations of experts on others
    FrugalGPT                           asks a dearer expert where the cheap one's answer is doubtful
    ReAct, RestGPT, DepthFirstSearch    use tools: step by step, by a plan, and with going back
    DyLAN, Puppeteer, Trinity           ask several experts: in rounds, or by a policy that chooses the next

They ask the experts of the environment, simulated or real, so that all they do is recorded and paid for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
