"""Private power flow among zones: optimal dispatch, or a balanced state by consensus.

The latter is section 6.1 and appendix D of Ryu and Kim 2023.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
