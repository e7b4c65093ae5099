"""Private power flow."""
