"""From the location of an object store to the options of the library that speaks with it.

Credentials are left to the library where it looks in the places of the store's own tools: variables and
profile files of AWS with the metadata service of an instance, ``GOOGLE_APPLICATION_CREDENTIALS`` with the
metadata server. For Azure it knows other names of variables than the tools: these are read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.storage.providers.location import StorageLocation

_REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_DEFAULT_REGION: Final = "us-east-1"
"""For stores that are not AWS: their servers accept any, or this one."""

_ANONYMOUS: Final = {
    "s3": {"skip_signature": "true", "disable_config_load": "true", "disable_ec2_metadata": "true"},
    "gs": {"skip_signature": "true", "disable_config_load": "true", "disable_vm_metadata": "true"},
    "az": {"skip_signature": "true"},
}


def operator_options(location: StorageLocation, environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the library's name of the service, and its options; some of them are secrets.

    Raises:
        InvalidArgumentError: neither the URI nor the environment says enough.
    """
    options = dict(_ANONYMOUS[location.scheme]) if location.is_anonymous else {}
    endpoint = location.option("endpoint")
    if endpoint:
        options["endpoint"] = endpoint
    match location.scheme:
        case "s3":
            return "s3", options | {"bucket": location.bucket} | _region(location, environ)
        case "gs":
            return "gcs", options | {"bucket": location.bucket}
        case "az":
            return "azblob", options | {"container": location.bucket} | _account(location, environ)
        case other:
            raise AssertionError(f"{other} is no object store")


def _region(location: StorageLocation, environ: Mapping[str, str]) -> dict[str, str]:
    if region := location.option("region"):
        return {"region": region}
    if any(environ.get(variable) for variable in _REGION_VARIABLES):
        return {}
    if location.option("endpoint"):
        return {"region": _DEFAULT_REGION}
    raise InvalidArgumentError(
        f"the region of bucket {location.bucket!r} is not known: add ?region=... to its URI or set AWS_REGION"
    )


def _account(location: StorageLocation, environ: Mapping[str, str]) -> dict[str, str]:
    account = location.option("account") or environ.get("AZURE_STORAGE_ACCOUNT", "")
    if not account:
        raise InvalidArgumentError(
            f"the account of container {location.bucket!r} is not known: add ?account=... to its URI, or set "
            "AZURE_STORAGE_ACCOUNT"
        )
    found = {"account_name": account}
    if not location.option("endpoint"):
        found["endpoint"] = f"https://{account}.blob.core.windows.net"
    if location.is_anonymous:
        return found
    if key := environ.get("AZURE_STORAGE_KEY"):
        found["account_key"] = key
    elif token := environ.get("AZURE_STORAGE_SAS_TOKEN"):
        found["sas_token"] = token
    return found
