"""Makes the one bucket of a test on a server that was just started. The library has no call for that."""

import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from email.utils import formatdate
from urllib.parse import urlsplit
from urllib.request import Request, urlopen


def make_s3_bucket(endpoint, bucket, key, secret):
    """Send ``PUT /bucket``, signed as version 4 of AWS's signatures."""
    now = datetime.now(UTC)
    day, time = now.strftime("%Y%m%d"), now.strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(b"").hexdigest()
    headers = {"host": urlsplit(endpoint).netloc, "x-amz-content-sha256": digest, "x-amz-date": time}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    canonical = f"PUT\n/{bucket}\n\n{lines}\n{names}\n{digest}"
    scope = f"{day}/us-east-1/s3/aws4_request"
    to_sign = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signing = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        signing = hmac.digest(signing, part.encode(), "sha256")
    signature = hmac.digest(signing, to_sign.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    send("PUT", f"{endpoint}/{bucket}", headers)


def make_gcs_bucket(endpoint, bucket):
    body = json.dumps({"name": bucket}).encode()
    send("POST", f"{endpoint}/storage/v1/b?project=p", {"content-type": "application/json"}, body)


def make_azure_container(endpoint, container, account, key):
    """Send ``PUT /account/container?restype=container``, signed with the key of the account."""
    date, version = formatdate(usegmt=True), "2021-08-06"
    to_sign = (
        f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:{version}\n"
        f"/{account}/{account}/{container}\nrestype:container"
    )
    signature = b64encode(hmac.digest(b64decode(key), to_sign.encode(), "sha256")).decode()
    headers = {
        "x-ms-date": date,
        "x-ms-version": version,
        "authorization": f"SharedKey {account}:{signature}",
        "content-type": "",
    }
    send("PUT", f"{endpoint}/{container}?restype=container", headers)


def send(method, url, headers, body=b""):
    with urlopen(Request(url, data=body, headers=headers, method=method), timeout=30) as answer:
        answer.read()
