"""What is done, as pure state machines: one module for each workflow (see `workflow`)."""
