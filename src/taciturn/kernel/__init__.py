"""The kernel: all that must be right for a certificate to be true.

Records, the questions about them, exact noise, the door that answers, and the ledger of what the
answers cost. Nothing above it holds a record or sees an answer without noise: everything else can
cost accuracy, and never privacy.
"""
