"""Private power flow among zones: the cheapest dispatch, or a state that zones agree on.

The latter is section 6.1 and appendix D of Ryu and Kim 2023.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
