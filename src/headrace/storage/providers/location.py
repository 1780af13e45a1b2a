"""Where long-term storage is, as one URI: the store, what in it, below which prefix.

======================================  ================================================================
``file:///mnt/chunks``                  a directory of this machine, absolute
``memory://``                           the memory of this process, for tests
``s3://bucket/prefix?region=eu-west-1`` S3 and what speaks its protocol (``endpoint=http://host:port``)
``gs://bucket/prefix``                  Google Cloud Storage
``az://container/prefix?account=name``  Azure Blob Storage
``hdfs://host:port/directory``          HDFS, by its name node
======================================  ================================================================

A URI has no secret: it is printed, logged and stored. Credentials come from where the tools of each store
keep them. ``anonymous=true`` sends none, for emulators.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from headrace.errors import InvalidArgumentError

OBJECT_SCHEMES: Final = ("s3", "gs", "az")
SCHEMES: Final = ("file", "memory", *OBJECT_SCHEMES, "hdfs")

PREFIX_CHARS_MAX: Final = 200
"""Of a prefix in an object store, whose keys have at most 1024 bytes."""

_OPTIONS: Final[dict[str, frozenset[str]]] = {
    "file": frozenset(),
    "memory": frozenset(),
    "s3": frozenset({"endpoint", "region", "anonymous"}),
    "gs": frozenset({"endpoint", "anonymous"}),
    "az": frozenset({"endpoint", "account", "anonymous"}),
    "hdfs": frozenset({"user"}),
}
_SECRET: Final = re.compile(
    r"secret|token|passw|credential|signature|(^|[-_])(key|sas|sig)($|[-_])|accesskey"
)
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,221}")
_NAME_NODE: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_PREFIX_PART: Final = re.compile(r"[A-Za-z0-9=_.-]+")
_PLAIN_TEXT: Final = re.compile(r"[^\x00-\x20\x7f]+")
_UNQUOTED: Final = "/-_.=~"
"""What stays readable in the path of a URI; ``/`` separates."""


@dataclass(frozen=True, slots=True)
class StorageLocation:
    """One place in one store. Two that are equal hold the same objects; the reverse is not known."""

    scheme: str
    """One of ``SCHEMES``."""

    bucket: str = ""
    """Bucket, container, or HOST:PORT of a name node; "" for files and memory."""

    prefix: str = ""
    """Without a slash at either end; for files the absolute directory."""

    options: tuple[tuple[str, str], ...] = ()
    """Sorted by name; never a secret."""

    @classmethod
    def parse(cls, uri: str) -> StorageLocation:
        """Read a URI; ``str()`` gives it again, with its options sorted.

        Raises:
            InvalidArgumentError: it is no URI of a store we know, lacks a part, or has a secret in it.
        """
        if not _PLAIN_TEXT.fullmatch(uri):
            raise InvalidArgumentError("a storage URI is not empty and has no spaces or control characters")
        scheme = uri.partition(":")[0]
        if "://" not in uri or scheme not in SCHEMES:
            known = ", ".join(f"{each}://" for each in SCHEMES)
            raise InvalidArgumentError(f"{_public(uri)!r} is no storage URI: it begins with one of {known}")
        try:
            parts = urlsplit(uri)
        except ValueError as error:  # brackets that do not match
            raise InvalidArgumentError(f"{_public(uri)!r} is no URI: {error}") from None
        if "@" in parts.netloc:
            raise InvalidArgumentError(
                "a storage URI has no user and no password: credentials come from the environment"
            )
        if parts.fragment or uri.endswith("#"):
            raise InvalidArgumentError(f"a storage URI has no '#': {_public(uri)!r}; write %23")
        options = _parse_options(scheme, parts.query)
        if scheme == "file":
            return cls(scheme, "", _parse_directory(parts), options)
        if scheme == "memory":
            if parts.netloc or parts.path.strip("/"):
                raise InvalidArgumentError(f"memory:// has no bucket and no path: {uri!r}")
            return cls(scheme, "", "", options)
        return cls(scheme, _parse_bucket(scheme, parts), _parse_prefix(scheme, parts.path), options)

    def __str__(self) -> str:
        path = quote(self.prefix, safe=_UNQUOTED)
        separator = "/" if self.bucket and path else ""
        query = f"?{urlencode(self.options, safe=':/')}" if self.options else ""
        return f"{self.scheme}://{self.bucket}{separator}{path}{query}"

    def option(self, name: str) -> str:
        """Return the value of an option; "" if it is not given."""
        return dict(self.options).get(name, "")

    @property
    def is_anonymous(self) -> bool:
        """Whether requests are sent without credentials."""
        return self.option("anonymous") == "true"


def _public(uri: str) -> str:
    """Return the part of a URI that an error may repeat: what is behind might be a secret."""
    return re.sub(r"//[^/?#]*@", "//", uri.partition("?")[0])[:200]


def _parse_options(scheme: str, query: str) -> tuple[tuple[str, str], ...]:
    try:
        pairs = (
            parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=20) if query else []
        )
    except ValueError:
        raise InvalidArgumentError("options of a storage URI are ?name=value&name=value") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if _SECRET.search(name.lower()):
            raise InvalidArgumentError(
                f"a storage URI takes no secret (option {name!r}): it is printed and stored; credentials "
                "come from the environment or the profile of the store's own tools"
            )
        if name not in _OPTIONS[scheme]:
            known = ", ".join(sorted(_OPTIONS[scheme])) or "none"
            raise InvalidArgumentError(f"{scheme}:// has no option {name!r}; it has {known}")
        if name in found:
            raise InvalidArgumentError(f"option {name!r} is given twice")
        found[name] = _check_option(name, value)
    return tuple(sorted(found.items()))


def _check_option(name: str, value: str) -> str:
    if not _PLAIN_TEXT.fullmatch(value):
        raise InvalidArgumentError(f"option {name!r} is empty or has spaces")
    if name == "anonymous" and value not in {"true", "false"}:
        raise InvalidArgumentError(f"option anonymous is true or false, not {value!r}")
    if name == "endpoint":
        return _check_endpoint(value)
    return value


def _check_endpoint(value: str) -> str:
    try:
        endpoint = urlsplit(value)
        good = endpoint.scheme in {"http", "https"} and endpoint.hostname and endpoint.port != 0
    except ValueError:
        good = False
    else:
        if "@" in endpoint.netloc or endpoint.query or endpoint.fragment:
            raise InvalidArgumentError("an endpoint has no user, no password and no options")
    if not good:
        raise InvalidArgumentError("an endpoint is http://host:port or https://host")
    return value.rstrip("/")


def _parse_directory(parts: SplitResult) -> str:
    directory = _unquote(parts.path)
    if parts.netloc not in {"", "localhost"} or not directory.startswith("/"):
        raise InvalidArgumentError(
            f"a directory is named absolutely, with three slashes: file:///{parts.netloc}{parts.path}"
        )
    directory = "/" + directory.strip("/")
    if any(part in {"", ".", ".."} for part in directory.split("/")[1:]):
        raise InvalidArgumentError(f"the directory {directory!r} is empty or has empty parts, '.' or '..'")
    return directory


def _parse_bucket(scheme: str, parts: SplitResult) -> str:
    form = _NAME_NODE if scheme == "hdfs" else _BUCKET
    if not form.fullmatch(parts.netloc):
        wanted = {
            "az": "a container: az://container/prefix",
            "hdfs": "a name node: hdfs://host:port/directory",
        }.get(scheme, f"a bucket: {scheme}://bucket/prefix")
        raise InvalidArgumentError(f"{scheme}://{parts.netloc} does not name {wanted}")
    return parts.netloc


def _parse_prefix(scheme: str, path: str) -> str:
    prefix = _unquote(path).strip("/")
    if not prefix:
        return ""
    for part in prefix.split("/"):
        if part in {"", ".", ".."}:
            raise InvalidArgumentError(f"the prefix {prefix!r} has empty parts, '.' or '..'")
        if scheme != "hdfs" and not _PREFIX_PART.fullmatch(part):
            raise InvalidArgumentError(
                f"{part!r} in a prefix: it has ASCII letters, digits and - _ . = between its slashes"
            )
    if scheme != "hdfs" and len(prefix) > PREFIX_CHARS_MAX:
        raise InvalidArgumentError(f"a prefix has at most {PREFIX_CHARS_MAX} characters, not {len(prefix)}")
    return prefix


def _unquote(path: str) -> str:
    try:
        text = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise InvalidArgumentError("the path of a storage URI is no UTF-8") from None
    if "\0" in text:
        raise InvalidArgumentError("the path of a storage URI has a NUL")
    return text
