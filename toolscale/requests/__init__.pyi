from .filters import apply_filters as apply_filters
