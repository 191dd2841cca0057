"""Hooks on Chainer and PyTorch that see the iterations of an unmodified program.

They are put on when the program has imported the module concerned, and touch nothing else of it.
If one fails, the program runs as it was.
"""

import functools
import sys
import time
import weakref


def install(agent):
    """Have the hooks put on when the program imports Chainer or PyTorch."""
    hooks = {
        "chainer.training.updaters.standard_updater": _on_updater,
        "torch.optim.optimizer": _on_optimizer,
        "torch.utils.data.dataloader": _on_loader,
    }
    sys.meta_path.insert(0, _Finder(agent, hooks))


class _Finder:
    """An import finder that lets the others find a module, and hooks it after its own code."""

    def __init__(self, agent, hooks):
        self._agent, self._hooks = agent, hooks

    def find_spec(self, name, *_):
        hook = self._hooks.pop(name, None)
        if hook is None:
            return None
        from importlib.util import find_spec

        spec = find_spec(name)  # by the others: this finder has forgotten the name
        try:
            self._hook_after(spec.loader, hook)
        except Exception:  # no loader, or one with fixed methods: the program runs without us
            pass
        return spec

    def _hook_after(self, loader, hook):
        original = loader.exec_module  # the loader is of this one module

        def exec_module(module):
            del loader.exec_module
            original(module)
            try:
                hook(self._agent, module)
            except Exception:  # another version: the program runs without the hook
                pass

        loader.exec_module = exec_module


class _FirstObject:
    """Tells whether an object is the first one: of several optimizers one counts the iterations.

    Once that one is gone, the next that comes takes its place: of a new model, or a new fold. What
    the program did between them makes the iteration unlike the others.
    """

    def __init__(self, agent):
        self._agent, self._first = agent, None

    def __call__(self, candidate):
        if self._first is None:
            self._first = weakref.ref(candidate)
        elif self._first() is None:
            self._first = weakref.ref(candidate)
            self._agent.mark()
        return self._first() is candidate


def _on_updater(agent, module):
    """Take each ``update`` of Chainer for an iteration, without its extensions and evaluations."""
    update, is_first = module.StandardUpdater.update, _FirstObject(agent)

    @functools.wraps(update)
    def hooked(self):
        if agent.idle or not is_first(self):
            return update(self)
        agent.iteration_begins("chainer")
        began_s = time.monotonic()
        result = update(self)
        agent.iteration_ended("chainer", time.monotonic() - began_s)
        return result

    module.StandardUpdater.update = hooked


def _on_optimizer(agent, module):
    """Take what PyTorch does from one step of its optimizer to the next for an iteration."""
    is_first = _FirstObject(agent)

    def hooked(optimizer, _args, _options):
        if not agent.idle and is_first(optimizer):
            agent.iteration_passed("torch")

    # PyTorch before 2.0 does not have it: then there is no live measurement.
    module.register_optimizer_step_post_hook(hooked)


def _on_loader(agent, module):
    """Mark the iteration in which a loader starts anew: it is not like the others."""
    begin = module.DataLoader.__iter__

    @functools.wraps(begin)
    def hooked(self):
        agent.mark()
        return begin(self)

    module.DataLoader.__iter__ = hooked
