"""Live measurement of a training program while it runs: three lines in the program.

A plain loop, which has a knob of its own::

    from tuner import live

    session = live.session()
    session.on("chunk", work.set_chunk, read=work.get_chunk)
    while work.left() or session.more():
        work.do_some()
        session.step()

:class:`ChainerExtension`, :class:`PpeExtension` and :func:`torch_loader` are the same for trainers
of Chainer and of PyTorch. Outside live measurement (``--live``) all of these do nothing: the loader
is the loader that was given, no extension fires, ``more()`` is false. They import no library: they
use Chainer and PyTorch through the objects that they are given. Every Python from 3.8 on that is
launched finds them (``wrappers/probe/sitecustomize.py``).
"""

from tuner.live.client.for_chainer import ChainerExtension
from tuner.live.client.for_pytorch import PpeExtension, torch_loader
from tuner.live.client.session import Session, session

__all__ = ["ChainerExtension", "PpeExtension", "Session", "session", "torch_loader"]
