"""The API contract: each package's public names and signatures, as committed and as they are."""
