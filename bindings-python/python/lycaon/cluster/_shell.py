"""IPython on a rank: cells as in the notebook, whose results and plots travel there."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from traitlets import Type
from traitlets.config import Config

if TYPE_CHECKING:
    # What IPython says of its types differs from version to version.
    DisplayHook: Any
    DisplayPublisher: Any
    InteractiveShell: Any
else:
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell


class RankHook(DisplayHook):  # type: ignore[misc]
    """The value of a cell's last expression."""

    def start_displayhook(self) -> None: ...
    def write_output_prompt(self) -> None: ...
    def finish_displayhook(self) -> None: ...
    def log_output(self, format_dict: Any) -> None: ...

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        self.shell.send(format_dict, md_dict or {})


class RankPublisher(DisplayPublisher):  # type: ignore[misc]
    """``display(…)`` and plots."""

    def publish(self, data: Any, metadata: Any = None, **how: Any) -> None:
        transient = how.get("transient") or {}
        self.shell.send(data, metadata or {}, transient=transient, update=how.get("update", False))

    def clear_output(self, wait: bool = False) -> None: ...


class RankShell(InteractiveShell):  # type: ignore[misc]
    send: Callable[..., None]
    shown: list[str]
    """The traceback of the last cell, as lines."""

    displayhook_class = Type(RankHook)
    display_pub_class = Type(RankPublisher)

    def run_cell(self, *arguments: Any, **named: Any) -> Any:
        self.shown = []
        return super().run_cell(*arguments, **named)

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        self.shown = list(stb)

    def enable_gui(self, gui: Any = None) -> None: ...


def make(module: types.ModuleType, send: Callable[..., None]) -> RankShell:
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.cache_size = 0
    RankShell.send = staticmethod(send)
    shell: RankShell = RankShell.instance(
        config=config, user_module=module, user_ns=module.__dict__
    )
    return shell
