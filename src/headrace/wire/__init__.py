"""Client and segment store agree here: commands, their bytes, and who may send what when. Pure.

Reading order: ``commands`` (what can be said), ``catalogue`` (its numbers), ``fields`` and ``layouts`` (how a
field becomes bytes), ``frames`` (how a command becomes a frame, and back), ``append_block`` (one append out
of several frames), ``server_session`` (who may say it when). Format: ``docs/formats/wire.md``.
"""
