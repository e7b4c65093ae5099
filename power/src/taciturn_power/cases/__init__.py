"""Networks as files: MATPOWER cases, and networks of pandapower."""
