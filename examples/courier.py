"""An environment of your own with two agents: a lookout, who sees a parcel's number, and a courier, who needs it.

The lookout observes a list of parcels and writes a message. The courier observes only that message, and answers with
the number. Both get the reward 1 if it is right. This file is all that a learner needs::

    cd examples
    python ../algos/multi_grpo.py --env courier:make                    # two built-in models, taught by `teach`
    python ../algos/multi_grpo.py --env courier:make --model PATH       # your own
    toolorchestra validate courier:make

As a script it plays one episode.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from toolorchestra.agents.messages import ModelMessage
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.play import Play
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, make_question
from toolorchestra.envs.task_env import EpisodeSetup
from toolorchestra.envs.world import World
from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.tasks.task import Task

LOOKOUT, COURIER = "lookout", "courier"
WORLD = QuestionWorld("courier", "Deliver the number of the wanted parcel.")
COLOURS = ("red", "blue", "green")


class CourierPlay(Play):
    """The rules: the lookout writes once, then the courier, and that is the answer."""

    def _on_message(self, agent: str, message: ModelMessage) -> None:
        if agent == LOOKOUT:
            self.observe(COURIER, f"The lookout says : {message.text}")
            self.pass_to(COURIER)
        else:
            self.judge(self.stated(message.text))


class CourierEnv(MultiAgentEnv):
    """The environment: its agents, and what each is shown at the beginning."""

    protocol = "Courier"

    def __init__(self) -> None:
        super().__init__(QuestionSource("Parcels", WORLD, parcels()), max_cycles=4, options={})
        self._set_agents([LOOKOUT, COURIER])

    def _setup_episode(
        self, task: Task, world: World, chosen: Mapping[str, Any], typed: TypedAnswer | None
    ) -> EpisodeSetup:
        openings = {
            LOOKOUT: [
                {"role": "system", "content": "Tell the courier the number of the parcel that is wanted."},
                {"role": "user", "content": task.instruction},
            ],
            COURIER: [{"role": "system", "content": "Say the number of the parcel to deliver."}],
        }
        return EpisodeSetup(openings[LOOKOUT][0]["content"], {}, CourierPlay, openings)


def parcels() -> list[Task]:
    """Return the tasks: which of three parcels is wanted, and the number on each."""
    rng = random.Random(0)
    tasks = []
    for split, count in (("train", 200), ("test", 30)):
        for number in range(count):
            numbers = dict(zip(COLOURS, rng.sample(range(10, 40), 3), strict=True))
            wanted = rng.choice(COLOURS)
            seen = " , ".join(f"{colour} {value}" for colour, value in numbers.items())
            tasks.append(
                make_question(
                    id=f"courier/parcel/{split}-{number:03}",
                    domain="courier",
                    intent="parcel",
                    split=split,
                    difficulty=1,
                    question=f"{seen} . Wanted : {wanted}",
                    answers=[str(numbers[wanted])],
                    numbers=list(numbers.values()),
                )
            )
    return tasks


def make() -> CourierEnv:
    """Return the environment: what ``--env courier:make`` calls."""
    return CourierEnv()


# What follows is needed only by built-in models, which learn from a teacher, and by `toolorchestra validate`.


def knows(task: Task) -> bool:
    """Return whether the teacher can teach a task: any of this environment."""
    return task.domain == "courier"


def teach(play: CourierPlay) -> str:
    """Return what the agent to move should say."""
    if play.current_agent == LOOKOUT:
        return play.task.communicate[0][0]
    return str(play.new_messages(COURIER)[-1]["content"]).split()[-1]


def inject_error(play: CourierPlay, rng: random.Random) -> str:
    """Return what it may say by mistake: the number of another parcel, or one more than it heard."""
    if play.current_agent == LOOKOUT:
        return str(rng.choice([n for n in play.task.bindings["numbers"] if str(n) != teach(play)]))
    return str((int(teach(play)) + 1) % 100) if teach(play).isdigit() else "0"


def random_message(env: MultiAgentEnv, rng: random.Random) -> str:
    """Return a message of no sense but of the right form."""
    return str(rng.randint(10, 39))


if __name__ == "__main__":
    env = make()
    env.reset(seed=0)
    while not env.play.over:
        agent = env.agent_selection
        message = teach(env.play)
        print(f"{agent} reads {env.observe(agent)!r} and says {message!r}")
        env.step(message)
    print(env.episode.outcome, env.episode.rewards)
