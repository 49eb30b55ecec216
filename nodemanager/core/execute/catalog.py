"""All workflows: the runner runs them, the journal reads their states, the manual draws them."""

from __future__ import annotations

from typing import Any

from nodemanager.core.execute.adopt import Adopt
from nodemanager.core.execute.bind import Bind
from nodemanager.core.execute.clean import Clean
from nodemanager.core.execute.dispatch import Dispatch
from nodemanager.core.execute.drain import Drain
from nodemanager.core.execute.once import Once
from nodemanager.core.execute.prune import Prune
from nodemanager.core.execute.restore import Restore
from nodemanager.core.execute.setup import SetUp
from nodemanager.core.execute.shutdown import ShutDown
from nodemanager.core.execute.workflow import Workflow

WORKFLOWS: tuple[Workflow[Any], ...] = (
    Once(Adopt()),
    Once(Bind()),
    Once(Dispatch()),
    Once(Drain()),
    Prune(),
    Once(Restore()),
    SetUp(),
    ShutDown(),
    Clean(),
)
