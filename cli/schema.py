"""The command `toolorchestra schema`."""

from dataclasses import dataclass

from toolorchestra.cli.files import print_json


@dataclass
class SchemaCommand:
    """Print the JSON Schema of domain files, for editors."""

    def run(self) -> int:
        """Print it."""
        from toolorchestra.toolscale.database.format import json_schema

        return print_json(json_schema())
