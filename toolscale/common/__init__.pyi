from .errors import OptionError as OptionError, ToolOrchestraError as ToolOrchestraError
