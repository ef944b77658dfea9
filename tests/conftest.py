"""What holds for all tests: a busy machine does not fail a property test, since no example has a deadline; and what
they start can be interrupted, also where a shell runs them in the background, whose children would be deaf to Ctrl-C.
"""

import signal

from hypothesis import settings

settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
