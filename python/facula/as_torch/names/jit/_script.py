"""`torch.jit._script`: classes that programs look for there."""

from facula.jit import RecursiveScriptModule, ScriptFunction, ScriptModule, script

__all__ = ["RecursiveScriptModule", "ScriptFunction", "ScriptModule", "script"]
