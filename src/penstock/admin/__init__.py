"""Operators' queries and commands, the same for every engine. It stands on the client alone."""
