"""Penstock and another broker side by side, under the load of one client: what those benches share."""
