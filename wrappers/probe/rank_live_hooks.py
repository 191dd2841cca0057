"""Hooks on Chainer and PyTorch that see the iterations of an unmodified program.

They are put on when the program has imported the module concerned, and touch nothing else of it.
If one fails, the program runs as it was.
"""

import functools
import sys
import time
import weakref


def install(agent):
    """Have the hooks put on once Chainer or PyTorch is imported."""
    todo = {
        "chainer.training.updaters.standard_updater": _on_updater,
        "torch.optim.optimizer": _on_optimizer,
        "torch.utils.data.dataloader": _on_loader,
    }
    sys.meta_path.insert(0, _Finder(agent, todo))


class _Finder:
    """An import finder that lets the others find, and acts after the module's own code."""

    def __init__(self, agent, todo):
        self._agent, self._todo = agent, todo

    def find_spec(self, name, *_):
        hook = self._todo.pop(name, None)
        if hook is None:
            return None
        from importlib.util import find_spec

        spec = find_spec(name)  # by the others: this finder has forgotten the name
        try:
            self._act_after(spec.loader, hook)
        except Exception:  # no loader, or one that cannot be told: the program runs without us
            pass
        return spec

    def _act_after(self, loader, hook):
        run = loader.exec_module  # it is of this one module

        def exec_module(module):
            del loader.exec_module
            run(module)
            try:
                hook(self._agent, module)
            except Exception:  # another version: the program runs without the hook
                pass

        loader.exec_module = exec_module


class _First:
    """Lets only the first object through: of several optimizers one counts the iterations.

    Once that is gone the next that comes takes its place: a new model, a new fold. What was done
    between them makes the iteration unlike the others.
    """

    def __init__(self, agent):
        self._agent, self._first = agent, None

    def __call__(self, thing):
        if self._first is None:
            self._first = weakref.ref(thing)
        elif self._first() is None:
            self._first = weakref.ref(thing)
            self._agent.mark()
        return self._first() is thing


def _on_updater(agent, module):
    """See an iteration of Chainer in each ``update``, without its extensions and evaluations."""
    update, first = module.StandardUpdater.update, _First(agent)

    @functools.wraps(update)
    def hooked(self):
        if agent.idle or not first(self):
            return update(self)
        agent.begins("chainer")
        begun_s = time.monotonic()
        result = update(self)
        agent.ran("chainer", time.monotonic() - begun_s)
        return result

    module.StandardUpdater.update = hooked


def _on_optimizer(agent, module):
    """See an iteration of PyTorch from one step of its optimizer to the next."""
    first = _First(agent)

    def hooked(optimizer, _args, _options):
        if not agent.idle and first(optimizer):
            agent.stepped("torch")

    # Missing before PyTorch 2.0: then there is no live measurement.
    module.register_optimizer_step_post_hook(hooked)


def _on_loader(agent, module):
    """Mark the iteration in which a loader starts anew: it is not like the others."""
    begin = module.DataLoader.__iter__

    @functools.wraps(begin)
    def hooked(self):
        agent.mark()
        return begin(self)

    module.DataLoader.__iter__ = hooked
