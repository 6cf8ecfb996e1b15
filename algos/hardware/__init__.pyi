from .memory import token_budget as token_budget
