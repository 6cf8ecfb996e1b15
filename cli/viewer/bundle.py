"""ES modules as one script, which the page loads by one request and an exported file has in it."""

from __future__ import annotations

import re

from toolorchestra.toolscale.common.errors import OptionError

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:const|function) (\w+)", re.MULTILINE)


def bundle(static: dict[str, bytes], first: str) -> str:
    """Return an ES module and what it imports as one script, each in a scope of its own after what it imports.

    Modules import by names in braces from files beside them; functions and constants are exported where they are
    declared.

    Raises:
        OptionError: They import one another in a circle.
    """
    order: list[str] = []

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise OptionError(f"The modules import one another in a circle: {' → '.join((*above, name))}.")
        if name not in order:
            for _, other in _IMPORT.findall(static[name].decode()):
                visit(other, (*above, name))
            order.append(name)

    visit(first, ())
    return '"use strict";\n' + "".join(_scoped(name, static[name].decode()) for name in order)


def _scoped(name: str, code: str) -> str:
    """Return a module as a function that is called at once, whose result has what the module exports."""
    exported = ", ".join(_EXPORT.findall(code))
    code = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = {_variable(found[2])};\n", code)
    code = re.sub(r"^export ", "", code, flags=re.MULTILINE)
    return f"const {_variable(name)} = (() => {{\n{code}return {{ {exported} }};\n}})();\n"


def _variable(name: str) -> str:
    return "module_" + name.removesuffix(".js")
