"""Experts: models that cost money, take time and err.

::

    Catalog ─ spec ──▶ ExpertSpec ──▶ SimulatedExpert ──▶ SimulatedChat
       │                                    ▲ fit_expert
       ├ configure, draw ──▶ ToolConfiguration      AnswerRow ◀── simulate, ask: ExpertEvaluation
       └ chat ──▶ the real model behind an entry                         └▶ describe_by_rule, describe_by_model

- `Catalog` lists experts and configurations; `SimulatedExpert` errs as an `ExpertSpec` says, and `SimulatedChat` puts
  it behind the chat protocol.
- `simulate` and `ask` evaluate experts on `ExpertTask`s, `fit_expert` fits a specification to the answers, and
  `describe_by_rule` and `describe_by_model` write descriptions.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
