"""Tests that run for minutes or hours, by hand: ``make campaigns``."""
