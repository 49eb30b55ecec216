"""What listings show, one by one and taken together: history, pairs, silence, ownership."""
