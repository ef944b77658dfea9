"""Topics, publishing, reading, waiting, events. Knows no protocol and no sockets; time comes from a clock that is
passed in.
"""
