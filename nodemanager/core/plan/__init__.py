"""The plan: what one snapshot calls for, as verdicts and orders."""
