"""Why a thing is done or left alone, in the words and numbers that people are shown."""
