"""Measurements. Every answer is checked before a time is printed."""
