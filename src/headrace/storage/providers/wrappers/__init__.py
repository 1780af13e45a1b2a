"""Providers around a provider: measured, throttled, tried again."""
