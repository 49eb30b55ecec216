"""Workflows: pure state machines that carry the orders out, one module each (see `workflow`).

Beside them are the checks before a write, the writes of unknown outcome, and the leftovers' ledger.
"""
