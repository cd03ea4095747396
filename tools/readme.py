"""The README as package indexes show it: what it links to in the repository leads there, from anywhere."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Readme(MetadataHookInterface):
    """Called by hatchling whenever the package is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the long description."""
        urls = metadata["urls"]
        text = (Path(self.root) / "README.md").read_text("utf-8")
        text = re.sub(r"(!\[[^]]*\]\()docs/(_static/)", rf"\1{urls['Documentation']}/en/latest/\2", text)
        text = re.sub(r"(\]\()(?!\w+:)", rf"\1{urls['Source']}/blob/main/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
