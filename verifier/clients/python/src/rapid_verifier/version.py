"""The package's version, which is that of the service."""

VERSION = "0.1.0"
