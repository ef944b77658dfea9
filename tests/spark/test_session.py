"""A session starts, and its workers are this Python."""

import socket

import pytest


def test_workers_import_the_package(spark):
    def where(_):
        import penstock

        return penstock.__version__

    import penstock

    assert spark.sparkContext.parallelize([1], 1).map(where).collect() == [penstock.__version__]


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets here")
def test_workers_talk_through_unix_sockets(spark):
    def kinds(_):
        import os
        import socket
        import stat

        found = [int(name) for name in os.listdir("/proc/self/fd")]
        sockets = [number for number in found if _is_socket(os, stat, number)]
        return {socket.socket(fileno=os.dup(number)).family.name for number in sockets}

    def _is_socket(os, stat, number):
        try:
            return stat.S_ISSOCK(os.fstat(number).st_mode)
        except OSError:
            return False

    assert spark.sparkContext.parallelize([1], 1).map(kinds).collect() == [{"AF_UNIX"}]


def test_arrow_does_not_look_twice_at_each_value(spark):
    memory, vectors = (getattr(spark._jvm.org.apache.arrow, package) for package in ("memory", "vector"))
    assert not memory.BoundsChecking.BOUNDS_CHECKING_ENABLED
    assert not vectors.NullCheckingForGet.NULL_CHECKING_ENABLED
