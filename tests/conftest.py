"""What holds for all tests: a busy machine does not fail a property test, since no example has a deadline."""

from hypothesis import settings

settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
