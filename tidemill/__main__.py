"""``python -m tidemill`` is ``tidemill``."""

from tidemill.cli import main

raise SystemExit(main())
