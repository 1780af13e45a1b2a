"""The ``headrace`` command: one module per noun; a verb imports heavy modules when it is executed."""
