"""Checkpoints that all processes of a job write together, and any number of them reads."""

from facula.distributed.checkpoint.folder import load, save

__all__ = ["load", "save"]
