"""A state that balances, on which zones agree: section 6.1 and appendix D of Ryu and Kim 2023."""
