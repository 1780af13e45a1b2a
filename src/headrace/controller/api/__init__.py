"""Interfaces of the controller: parse, call, render."""
