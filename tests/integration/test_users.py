"""A server with users, by gRPC and REST, and a start without a good users file."""

from base64 import b64encode

import grpc
import httpx
import pytest

from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated import controller_pb2_grpc
from headrace.testing import LocalServer, ServerDiedError
from headrace.testing.users_files import write_users_file

pytestmark = pytest.mark.cluster

USERS = {
    "admin": ("admins-password", "prn::*,READ_UPDATE"),
    "ann": ("crimson-password", "prn::/scope:sales*,READ", "prn::/,READ"),
}
NO, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED


def metadata(name, password):
    return [("authorization", "Basic " + b64encode(f"{name}:{password}".encode()).decode())]


def code_of(call, request, credentials=()):
    try:
        call(request, metadata=credentials, timeout=30)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("way", ["option", "environment"])
def test_users_do_what_their_grants_allow(way, tmp_path):
    path = tmp_path / "users"
    write_users_file(path, USERS)
    given = {"environment": {"HEADRACE_AUTH__USERS": str(path)}} if way == "environment" else {"users": USERS}
    admin, ann = metadata("admin", "admins-password"), metadata("ann", "crimson-password")
    with (
        LocalServer(None, "--in-memory", "--containers", "2", **given) as server,
        grpc.insecure_channel(server.addresses["controller"]) as channel,
        httpx.Client(base_url=f"http://{server.addresses['rest']}/v1", trust_env=False) as web,
    ):
        stub = controller_pb2_grpc.ControllerServiceStub(channel)
        for scope in ("sales", "other"):
            assert code_of(stub.createScope, pb.ScopeInfo(scope=scope), ann) is DENIED
            assert code_of(stub.createScope, pb.ScopeInfo(scope=scope), admin) is grpc.StatusCode.OK
        for credentials in ((), metadata("ann", "wrong-password"), metadata("bob", "crimson-password")):
            assert code_of(stub.listScopes, pb.ScopesRequest(), credentials) is NO
        assert list(stub.listScopes(pb.ScopesRequest(), metadata=ann).scopes) == ["sales"]
        assert code_of(stub.getControllerServerList, pb.ServerRequest()) is grpc.StatusCode.OK

        assert web.get("/health/readiness").json() is True
        refused = web.get("/scopes")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Basic realm="headrace"')
        assert web.get("/scopes", auth=("ann", "wrong-password")).status_code == 401
        assert web.get("/scopes", auth=("ann", "crimson-password")).json() == {
            "scopes": [{"scopeName": "sales"}]
        }
        assert web.delete("/scopes/sales", auth=("ann", "crimson-password")).status_code == 403
        assert web.get("/scopes/other", auth=("ann", "crimson-password")).status_code == 403
        assert web.get("/debug/statistics", auth=("ann", "crimson-password")).status_code == 403
        assert web.get("/debug/statistics", auth=("admin", "admins-password")).status_code == 200
        assert web.delete("/scopes/sales", auth=("admin", "admins-password")).status_code == 204
        said = server.log()
        assert all(secret not in said for secret in ("-password", metadata("ann", "crimson-password")[0][1]))


@pytest.mark.parametrize("content", [None, b"ann:secret-that-is-no-digest:prn::*,READ\n"])
def test_a_server_without_a_good_users_file_does_not_start(content, tmp_path):
    path = tmp_path / "users"
    if content is not None:
        path.write_bytes(content)
    server = LocalServer(tmp_path / "server", "--users", str(path))
    with pytest.raises(ServerDiedError), server:
        pytest.fail("it has started")
    (line,) = server.log().splitlines()
    assert line.startswith("headrace: ")
    assert str(path) in line
    assert "secret" not in line
    assert not (server.directory / "data").exists()
