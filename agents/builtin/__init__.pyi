from .adapters import AdapterPolicy as AdapterPolicy, load_adapters as load_adapters, make_adapters as make_adapters
from .chat_template_renderer import ChatTemplateRenderer as ChatTemplateRenderer
from .compact_renderer import CompactRenderer as CompactRenderer
from .design_renderer import DesignRenderer as DesignRenderer
from .model import (
    TokenPolicy as TokenPolicy,
    build_model as build_model,
    build_renderer as build_renderer,
    prepare_torch as prepare_torch,
)
from .renderer import Decoded as Decoded, Renderer as Renderer
from .text_model import builtin_text_policy as builtin_text_policy
