"""The decisions of the controller: pure state machines without I/O, clock or randomness.

Modules of the core refer to one another: begun from here, whichever is asked for first finds the others in an order that works.
"""

from . import controller as controller
