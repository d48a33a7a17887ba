"""`python -m pathways_door`."""

from pathways_door.main import main

raise SystemExit(main())
