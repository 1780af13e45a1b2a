"""Thin doors to the controller: parse, call, render."""
