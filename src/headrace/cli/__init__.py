"""The ``headrace`` command: one module per noun, and what is heavy is imported by the verb that runs."""
