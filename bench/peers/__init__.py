"""Other libraries' sides of `bench.against_peers`, each run in an environment of its own."""
