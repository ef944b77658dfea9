"""What helps to test with and against Penstock: servers in-process, a faulty disk."""
