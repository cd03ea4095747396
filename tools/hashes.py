"""Print what pip found for constraints.txt as requirements with hashes, for ``make constraints``.

    python tools/hashes.py REPORT

``REPORT`` is what ``pip install --report`` wrote. One hash for each package, of the file that pip took here.
"""

import json
import sys
from pathlib import Path

LEFT_OUT = ("torch",)  # for the processor alone or with CUDA: its file differs from machine to machine

for item in json.loads(Path(sys.argv[1]).read_text())["install"]:
    name, version = (item["metadata"][key] for key in ("name", "version"))
    if name not in LEFT_OUT:
        print(f"{name}=={version} --hash=sha256:{item['download_info']['archive_info']['hashes']['sha256']}")
