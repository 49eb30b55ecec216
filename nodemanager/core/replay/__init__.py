"""Folds a recording again: under its own settings, and under others."""
