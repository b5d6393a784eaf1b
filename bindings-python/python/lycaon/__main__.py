"""``python -m lycaon`` is the program ``lycaon``."""

import sys

from lycaon._command import main

sys.exit(main())
