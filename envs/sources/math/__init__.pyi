from .source import MathSource as MathSource, make_problems as make_problems
