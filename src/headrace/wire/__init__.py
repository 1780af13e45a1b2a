"""The wire protocol between clients and segment stores: commands, their bytes, and their legal order. Pure.

Reading order: ``commands`` (the messages), ``catalogue`` (their numbers), ``fields`` and ``layouts`` (how a
field becomes bytes), ``frames`` (how a command becomes a frame, and back), ``append_block`` (one append out
of several frames), ``server_session`` (which command is legal when). Format: ``docs/formats/wire.md``.
"""
