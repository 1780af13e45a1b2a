"""Every name that the source defines, so that pages can be compared with it."""

import ast
from dataclasses import dataclass, field
from functools import cache

from headrace.processes.config import StandaloneConfig
from headrace.runtime.settings import walk
from tests.docs.source_texts import SOURCE
from tests.tidy.source_tree import tree_of


@dataclass
class SourceNames:
    """What there is: members by class, names by module, everything that is defined anywhere, and paths."""

    members: dict[str, set[str]] = field(default_factory=dict)
    bases: dict[str, set[str]] = field(default_factory=dict)
    modules: dict[str, set[str]] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    settings: set[str] = field(default_factory=set)

    def has_member(self, class_name, member):
        """Whether a class, or one of ours that it inherits from, has a function or field of that name."""
        return member in self.members.get(class_name, ()) or any(
            self.has_member(base, member) for base in self.bases.get(class_name, ())
        )

    def has_path(self, path):
        """Whether a module or folder can be told by the end of its path."""
        return any(f"/{known}".endswith(f"/{path}") for known in self.paths)

    def has_setting(self, name):
        """Whether a setting can be told by the end of its key."""
        return any(f".{key}".endswith(f".{name}") for key in self.settings)

    def find_missing(self, token):
        """Return what is wrong with a word of a page; None if the source has it, or it is no name."""
        if "/" in token and " " not in token:
            path = token if token.endswith((".py", "/")) else f"{token}/"
            return None if self.has_path(path) else f"there is no {token}"
        if token.endswith(".py"):
            return None if self.has_path(token) else f"there is no {token}"
        owner, dot, name = token.rpartition(".")
        if not all(part.isidentifier() for part in token.split(".")):
            return None
        if not dot:
            known = token in self.defined or token in self.modules or self.has_setting(token)
            is_name = "_" in token.strip("_") or token.startswith("_") or not token.islower()
            return None if known or not is_name else f"nothing is called {token}"
        if owner in self.members:
            return None if self.has_member(owner, name) else f"{owner} has no {name}"
        if name in self.modules.get(owner.rpartition(".")[2], ()) or self.has_setting(token):
            return None
        return f"neither class nor module nor section has {token}"


@cache
def source_names():
    """Read the whole source once."""
    found = SourceNames(settings={setting.key for setting in walk(StandaloneConfig)})
    for path in SOURCE.rglob("*.py"):
        relative = path.relative_to(SOURCE)
        found.paths |= {str(relative), *(f"{parent}/" for parent in relative.parents)}
        tree = tree_of(path)
        # Several modules have the same last name: a page may mean any of them.
        found.modules.setdefault(path.stem, set()).update(_names_of(tree.body))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.defined.add(node.name)
                found.members.setdefault(node.name, set()).update(_members_of(node))
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)} - {node.name}
                found.bases.setdefault(node.name, set()).update(bases)
            found.defined |= _names_of([node])
    for members in found.members.values():
        found.defined |= members
    return found


def _names_of(body):
    names = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names |= {node.target.id} if isinstance(node.target, ast.Name) else set()
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _members_of(node):
    fields = {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
    }
    return _names_of(node.body) | fields
