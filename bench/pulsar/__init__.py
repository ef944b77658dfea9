"""Penstock and Pulsar side by side, under the load of one Java client. `make bench-pulsar` prints it."""
