"""The public network with its private demand, its zones, its cone relaxation, and its drawing."""
