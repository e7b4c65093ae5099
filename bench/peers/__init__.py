"""Other libraries' sides of `bench.against_peers`, each run in a separate environment."""
