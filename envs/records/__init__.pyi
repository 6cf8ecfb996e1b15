from .episode import Episode as Episode, read_episodes as read_episodes
