from .model_judge import ModelJudge as ModelJudge
