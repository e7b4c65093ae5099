"""Wang et al. 2024, DP-RECAL: relay communication without a server, run again."""
