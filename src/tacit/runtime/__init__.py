"""Runtimes: the same agent functions vectorised, or one agent at a time."""

from tacit.runtime.run import Run, Runtime, behind_the_door, fresh_key, run
from tacit.runtime.serial import serial
from tacit.runtime.simulate import simulate, sweep

__all__ = ["Run", "Runtime", "behind_the_door", "fresh_key", "run", "serial", "simulate", "sweep"]
