"""taciturn-papers: the experiments and claims of four papers, run again with taciturn."""

__version__ = "0.1.0"
