"""Run the campaign: ``python -m campaigns.every_k --seed 1 --share 0.1``."""

import sys

from campaigns.every_k.campaign import main

sys.exit(main())
