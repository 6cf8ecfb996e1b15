from .call_forms import WrittenCall as WrittenCall, find_calls as find_calls
from .written_values import repair_json as repair_json
