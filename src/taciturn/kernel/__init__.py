"""The kernel: all code that must be right for a certificate to be true.

Records, the questions about them, exact noise, the door that answers, and the ledger of what the
answers cost. Code outside holds no record and sees no answer without noise, so a fault there can
cost accuracy, but never privacy.
"""
