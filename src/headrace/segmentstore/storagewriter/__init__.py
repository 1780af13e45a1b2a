"""storagewriter."""
