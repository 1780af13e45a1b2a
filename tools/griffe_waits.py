"""Lets the site show methods that wait: ``create_scope = waits(Client.create_scope)`` as what it is.

The site reads the source without running it. A method of the blocking client that is made of one of the other
client is shown with the arguments and the text of that one, without its ``await``.
"""

from __future__ import annotations

from typing import Any

import griffe

BLOCKING = "headrace.client.blocking"
MAKERS = frozenset({"waits", "iterates", "opens", "makes"})
"""Functions of ``headrace.client.blocking.waits`` whose first argument is the other method."""


class WaitingMethods(griffe.Extension):
    """Replaces such attributes by functions once everything is loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        from headrace.client.blocking.waits import without_await

        if pkg.name != "headrace":
            return
        for module in pkg["client.blocking"].modules.values():
            for found in list(module.classes.values()):
                for member in list(found.members.values()):
                    call = _call_of(member)
                    if call is not None:
                        _show(found, member, call, without_await)


def _call_of(member: Any) -> griffe.ExprCall | None:
    """Return ``waits(Client.method)`` of an attribute, or ``like(Client.method)`` above a function."""
    if member.is_alias:
        return None
    if member.is_function:
        calls = [each.value for each in member.decorators if isinstance(each.value, griffe.ExprCall)]
        return next((each for each in calls if str(each.function) == "like"), None)
    value = getattr(member, "value", None)
    return value if isinstance(value, griffe.ExprCall) and str(value.function) in MAKERS else None


def _behind(found: Any) -> Any:
    return found.final_target if found.is_alias else found


def _show(owner: griffe.Class, member: Any, call: griffe.ExprCall, without_await: Any) -> None:
    text, _, name = str(call.arguments[0]).rpartition(".")
    source = _behind(_behind(owner.module[text]).all_members[name])
    docstring = griffe.Docstring(without_await(source.docstring.value), parser="google")
    if member.is_function:
        member.docstring = docstring
        docstring.parent = member
        return
    maker = str(call.function)
    returns = source.returns
    if maker == "iterates":
        returns = str(returns).removeprefix("Async")
    elif maker != "waits":
        returns = call.arguments[1]
    shown = griffe.Function(
        member.name,
        lineno=member.lineno,
        parameters=source.parameters,
        returns=returns,
        docstring=docstring,
        parent=owner,
    )
    owner.set_member(member.name, shown)
