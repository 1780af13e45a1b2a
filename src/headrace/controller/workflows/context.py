"""What every workflow works with."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.controller.config import ControllerConfig
from headrace.controller.segments.calls import SegmentCalls
from headrace.controller.store.contract import MetadataStore
from headrace.controller.streams.directory import Directory
from headrace.controller.streams.numbering import Numbering
from headrace.controller.streams.scopes import Scopes
from headrace.controller.workflows.engine import WorkflowEngine
from headrace.runtime.clock import Clock
from headrace.runtime.entropy import Entropy


@dataclass(slots=True)
class WorkflowContext:
    """The controller's parts, wired by ``controller.server``."""

    config: ControllerConfig
    clock: Clock
    entropy: Entropy
    store: MetadataStore
    segments: SegmentCalls
    scopes: Scopes
    directory: Directory
    numbering: Numbering
    engine: WorkflowEngine
