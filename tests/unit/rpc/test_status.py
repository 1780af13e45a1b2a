import grpc
import pytest

from headrace import errors
from headrace.rpc.status import LEAF_STATUS, status_of

LEAVES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.HeadraceError) and kind is not errors.HeadraceError
]
FINAL = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
}
WAITING_HELPS = {
    errors.ScopeNotEmptyError,
    errors.PreconditionError,
    errors.ReaderOfflineError,  # which clients raise, and servers never do
    errors.UnauthenticatedError,  # one client refreshes its credentials then
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_a_client_repeats_a_call_exactly_when_repeating_can_help(kind):
    code = status_of(kind.__new__(kind))
    assert code is not grpc.StatusCode.INTERNAL
    permanent = issubclass(kind, errors.RequestError) and kind not in WAITING_HELPS
    assert (code in FINAL) == permanent


def test_every_exception_of_the_table_is_a_leaf():
    families = set(errors.HeadraceError.__subclasses__())
    assert not families & set(LEAF_STATUS)
