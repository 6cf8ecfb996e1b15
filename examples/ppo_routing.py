"""PPO in one file, in the style of CleanRL's `ppo.py`, on an environment of routing.

It needs torch and nothing else, and takes two minutes on one core. Another environment:

    python examples/ppo_routing.py --env-id toolorchestra:Routing-Restaurant-v0 --total-timesteps 400000
"""

import time
from collections import deque
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import nn, optim
from torch.distributions.categorical import Categorical


@dataclass
class Args:
    """PPO on an environment whose observations and actions are numbers."""

    env_id: str = "toolorchestra:Routing-Math-v0"
    """Id of the environment, after the module that registers it."""
    seed: int = 1
    """Seed of the environments and of the learner."""
    total_timesteps: int = 200_000
    """Steps of all environments together."""
    learning_rate: float = 1e-3
    """Learning rate at the beginning; it falls to 0."""
    num_envs: int = 16
    """Number of environments."""
    num_steps: int = 128
    """Steps of each environment between two updates."""
    gamma: float = 1.0
    """Discount: an episode ends by itself, and its sum is what counts."""
    gae_lambda: float = 0.95
    """Lambda of generalised advantage estimation."""
    num_minibatches: int = 4
    """Parts of a batch."""
    update_epochs: int = 4
    """Passes over a batch."""
    clip_coef: float = 0.2
    """Bound of the ratio of probabilities."""
    ent_coef: float = 0.01
    """Weight of the entropy."""
    vf_coef: float = 0.5
    """Weight of the loss of values."""
    max_grad_norm: float = 0.5
    """Maximum norm of gradients."""


def layer_init(layer: nn.Linear, std: float = 2**0.5, bias: float = 0.0) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class Agent(nn.Module):
    """An actor and a critic."""

    def __init__(self, envs: gym.vector.SyncVectorEnv) -> None:
        super().__init__()
        size = int(np.prod(envs.single_observation_space.shape))
        count = int(envs.single_action_space.n)
        self.critic = nn.Sequential(
            layer_init(nn.Linear(size, 64)), nn.Tanh(), layer_init(nn.Linear(64, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, 1), std=1.0),
        )  # fmt: skip
        self.actor = nn.Sequential(
            layer_init(nn.Linear(size, 64)), nn.Tanh(), layer_init(nn.Linear(64, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, count), std=0.01),
        )  # fmt: skip

    def get_value(self, x: torch.Tensor) -> torch.Tensor:
        """Return the values of observations."""
        return self.critic(x).squeeze(-1)

    def get_action_and_value(self, x: torch.Tensor, action: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        """Return actions (drawn, or those given), their log-probabilities, the entropies and the values."""
        chances = Categorical(logits=self.actor(x))
        if action is None:
            action = chances.sample()
        return action, chances.log_prob(action), chances.entropy(), self.get_value(x)


def main(args: Args) -> None:
    batch_size = args.num_envs * args.num_steps
    minibatch_size = batch_size // args.num_minibatches
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = gym.vector.SyncVectorEnv(
        [lambda: gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id)) for _ in range(args.num_envs)],
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )
    agent = Agent(envs)
    optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    shape = (args.num_steps, args.num_envs)
    obs = torch.zeros((*shape, *envs.single_observation_space.shape))
    actions = torch.zeros(shape, dtype=torch.long)
    logprobs, rewards, dones, values = (torch.zeros(shape) for _ in range(4))
    returns_seen: deque[float] = deque(maxlen=200)
    start = time.time()
    next_obs = torch.as_tensor(envs.reset(seed=args.seed)[0])
    next_done = torch.zeros(args.num_envs)
    num_iterations = max(1, args.total_timesteps // batch_size)

    for iteration in range(1, num_iterations + 1):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1.0 - (iteration - 1) / num_iterations)
        for step in range(args.num_steps):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                actions[step], logprobs[step], _, values[step] = agent.get_action_and_value(next_obs)
            seen, reward, terminated, truncated, infos = envs.step(actions[step].numpy())
            rewards[step] = torch.as_tensor(reward)
            next_obs, next_done = torch.as_tensor(seen), torch.as_tensor(terminated | truncated).float()
            if "final_info" in infos:
                ended = infos["final_info"]["_episode"]
                returns_seen.extend(infos["final_info"]["episode"]["r"][ended].tolist())

        with torch.no_grad():  # generalised advantage estimation
            advantages = torch.zeros(shape)
            after, last = agent.get_value(next_obs), torch.zeros(args.num_envs)
            for t in reversed(range(args.num_steps)):
                goes_on = 1.0 - (next_done if t == args.num_steps - 1 else dones[t + 1])
                following = after if t == args.num_steps - 1 else values[t + 1]
                delta = rewards[t] + args.gamma * following * goes_on - values[t]
                advantages[t] = last = delta + args.gamma * args.gae_lambda * goes_on * last
            returns = advantages + values

        flat = [x.reshape(batch_size, *x.shape[2:]) for x in (obs, actions, logprobs, advantages, returns)]
        for _ in range(args.update_epochs):
            for rows in torch.randperm(batch_size).split(minibatch_size):
                b_obs, b_actions, b_logprobs, b_advantages, b_returns = (x[rows] for x in flat)
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs, b_actions)
                ratio = (newlogprob - b_logprobs).exp()
                b_advantages = (b_advantages - b_advantages.mean()) / (b_advantages.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                policy_loss = -torch.min(b_advantages * ratio, b_advantages * clipped).mean()
                value_loss = 0.5 * (newvalue - b_returns).square().mean()
                loss = policy_loss - args.ent_coef * entropy.mean() + args.vf_coef * value_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()

        steps = iteration * batch_size
        mean = float(np.mean(returns_seen)) if returns_seen else float("nan")
        print(f"steps={steps} mean_return={mean:.3f} steps_per_second={steps / (time.time() - start):.0f}", flush=True)
    envs.close()


if __name__ == "__main__":
    main(tyro.cli(Args))
