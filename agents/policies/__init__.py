"""Policies: what chooses the actions in an environment.

::

    Policy                          reset(env, observation, info), act(observation, info)
      ├ NullPolicy, RandomPolicy
      ├ OraclePolicy                plays the reference trajectory (privileged)
      │   └ NoisyOraclePolicy       makes mistakes
      │       └ QueryingOraclePolicy    also asks experts
      ├ ChatPolicy, HumanPolicy
      ├ ConsensusPolicy, ExplorerPolicy     ask several experts
      └ Baseline                    fixed rules to compare with
          ├ Direct ─ Strongest, Cheapest
          └ DirectWithTools, MajorityVote, SelfRefine, FixedWorkflow

`make_policy` makes a policy by name, and `play_episode` plays an episode with one. Baselines of other papers are in
``examples/baselines``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
