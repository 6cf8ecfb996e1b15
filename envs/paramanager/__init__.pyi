from .env import ParaManagerEnv as ParaManagerEnv
from .play import ParaManagerPlay as ParaManagerPlay
