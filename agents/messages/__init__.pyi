from .history import history_for_server as history_for_server
from .model_message import Action as Action, Message as Message, ModelMessage as ModelMessage, ParsedCall as ParsedCall
from .reading import read_message as read_message, read_text as read_text, spoken as spoken
