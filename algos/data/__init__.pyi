from .demonstrations import Demonstration as Demonstration
