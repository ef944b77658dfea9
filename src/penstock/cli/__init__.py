"""The command line: one file per subcommand. What one needs is imported when it runs, so that each starts fast."""
