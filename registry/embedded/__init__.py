"""PostgreSQL and Valkey from Python packages, owned by one command on one machine.

``instance`` says where everything of an instance lies and is pure; nothing in this package
starts a server on import.
"""
