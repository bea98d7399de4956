"""The blocks that every architecture is built from.

Each block comes as a frozen spec, which a family's config fills in, and the module that
the spec builds; options are resolved when the module is made, not when it is called.
"""
