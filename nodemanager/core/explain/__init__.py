"""Why something is done or left alone, in the words and numbers that operators are shown."""
