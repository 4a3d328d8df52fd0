"""Formats of dates, by language, where Django looks for them."""
