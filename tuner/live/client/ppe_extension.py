"""The extension by which a training with pytorch-pfn-extras takes part in live measurement."""

from __future__ import annotations

from typing import Any

from tuner.live.client.loop import Agent, Until, find_agent


class PpeExtension:
    """Reports a manager's iterations, which go on beyond their end while the study wants them.

    ::

        from tuner import live

        loader = live.torch_loader(DataLoader(dataset, 32, shuffle=True, num_workers=2))
        manager.extend(live.PpeExtension())
        while not manager.stop_trigger:
            for batch in loader:
                with manager.run_iteration():
                    ...

    :func:`torch_loader` offers the loader's knobs. A loop that counts epochs or iterations by
    itself instead of asking ``manager.stop_trigger`` ends where it would. Every rank has to extend
    its manager. Outside live measurement it does nothing.
    """

    default_name = "TuneLive"
    #: Before all others, so that an iteration's own work ends here.
    priority = 1000

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._epoch = 0
        self._mark = True  # the first iteration starts workers

    def trigger(self, _: Any) -> bool:
        """In each iteration of a study."""
        return self._agent is not None

    def initialize(self, manager: Any) -> None:
        """Let the manager go on, before the first iteration."""
        self._agent = agent = find_agent()
        if agent is None:
            return
        by_epoch = getattr(manager._stop_trigger, "unit", "epoch") == "epoch"

        def between(manager: Any) -> bool:
            return not by_epoch or float(manager.epoch_detail).is_integer()

        for name in ("_stop_trigger", "_internal_stop_trigger"):
            setattr(manager, name, Until(getattr(manager, name), agent, between))

    def __call__(self, manager: Any) -> None:
        """An iteration boundary."""
        if self._agent is None:
            return
        # What ends here began behind the last call: with that iteration's other extensions.
        mark, epoch = self._mark, manager.epoch
        self._mark, self._epoch = epoch != self._epoch, epoch
        self._agent.step(mark)
