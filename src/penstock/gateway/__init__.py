"""The sides of the broker that speak a protocol: sockets on one end, verbs of the core on the other."""
