"""Models in stages, one after the other in several processes, and batches in parts."""

from facula.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from facula.distributed.pipelining.stage import PipelineStage

__all__ = ["PipelineStage", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B"]
