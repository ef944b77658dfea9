"""Pulsar's binary protocol: frames and commands, entries and batches, topic names."""
