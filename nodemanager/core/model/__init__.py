"""The data types that core shares: nodes, records, facts, settings, verdicts, reasons."""
