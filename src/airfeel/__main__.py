"""``python -m airfeel``: the same as the command ``airfeel``."""

import sys

from airfeel.cli import main

sys.exit(main())
