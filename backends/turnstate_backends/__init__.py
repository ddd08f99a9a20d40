"""Stores to records, payloads to plain data. Imports nothing from above this package."""
