from .derive import derive_requests as derive_requests, derive_tools as derive_tools
