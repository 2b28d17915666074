"""Drop-ins for other libraries' interfaces."""
