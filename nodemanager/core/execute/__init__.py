"""What is done, as pure state machines: one module for each workflow (see `workflow`).

Beside them is what a write is checked against: the last look, late writes, the leftovers' ledger.
"""
