"""The network that is public and the demand that is private, its zones, and how it is drawn."""
