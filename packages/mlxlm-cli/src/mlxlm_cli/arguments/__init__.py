"""Flags, in groups that the commands share: one definition and one default each."""
