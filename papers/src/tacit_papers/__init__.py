"""tacit-papers: the experiments and claims of four papers, run again with tacit."""

__version__ = "0.1.0"
