"""What Penstock's ground can do, measured beside the raw disk in the same run. `make bench` prints it."""
