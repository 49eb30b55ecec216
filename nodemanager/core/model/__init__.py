"""What is known and said: nodes, records, facts, settings, verdicts, reasons."""
