"""The client for Python beside the Java client, both on one Penstock. `python -m bench.client`."""
