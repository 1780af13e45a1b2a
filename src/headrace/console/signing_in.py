"""Who looks at the console: a form for name and password, then a cookie that only this console is sent."""

from __future__ import annotations

import asyncio
import hmac
from base64 import b64encode
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headrace.console.forms import fields_of
from headrace.console.frame import Frame
from headrace.console.sessions import LIFETIME_S, SECRET_BYTES, Sessions, form_token
from headrace.errors import PermissionDeniedError, UnauthenticatedError
from headrace.runtime.entropy import Entropy
from headrace.security.access import Gatekeeper, Need
from headrace.web.origin_rules import CONSOLE_PATH

SIGN_IN_PATH: Final = f"{CONSOLE_PATH}/sign-in"
_SEE_OTHER: Final = 303
_CHARS_MAX: Final = 1024
"""Of a name and of a password."""


class SigningIn:
    """Knows who asks by the cookie; without a ``gatekeeper`` everybody is nobody, who may do everything."""

    def __init__(
        self, frame: Frame, gatekeeper: Gatekeeper | None, entropy: Entropy, *, encrypted: bool
    ) -> None:
        self._frame = frame
        self._gatekeeper = gatekeeper
        self._entropy = entropy
        self._encrypted = encrypted
        self._sessions = Sessions()
        self._nobody = entropy.token(SECRET_BYTES).hex()
        """The secret of everybody who has not signed in: forms of their pages are ours, too."""

    async def admit(self, request: Request, need: Need | None) -> None:
        """Note who asks, in the state of the request, and check that they have what they need; None: they
        need to be signed in.

        Raises:
            UnauthenticatedError: they have to sign in, again or for the first time.
            PermissionDeniedError: they may not.
        """
        request.state.caller, request.state.token = None, form_token(self._nobody)
        if self._gatekeeper is None:
            return
        secret = request.cookies.get(self._cookie(request), "")
        authorization = self._sessions.find(secret, asyncio.get_running_loop().time()) if secret else None
        if authorization is None:
            raise UnauthenticatedError("sign in to see this page")
        try:
            caller = await self._gatekeeper.authenticate(authorization)
        except UnauthenticatedError:
            self._sessions.close(secret)
            raise
        request.state.caller, request.state.token = caller, form_token(secret)
        if need is not None:
            need.check(caller)

    async def show(self, request: Request) -> Response:
        """Answer with the form."""
        return self._form(request, "")

    async def sign_in(self, request: Request) -> Response:
        """Begin a session for who gives a name and a password that are right."""
        fields = await fields_of(request)
        self.check_form(fields.get("token", ""), form_token(self._nobody))
        user, password = fields.get("user", ""), fields.get("password", "")
        if self._gatekeeper is None:
            return RedirectResponse(_target(request), _SEE_OTHER)
        if not user or ":" in user or max(len(user), len(password)) > _CHARS_MAX:
            return self._form(request, "These are no user and password that this server knows.")
        authorization = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
        try:
            await self._gatekeeper.authenticate(authorization)
        except UnauthenticatedError:
            return self._form(request, "These are no user and password that this server knows.")
        secret = self._entropy.token(SECRET_BYTES).hex()
        self._sessions.open(secret, authorization, asyncio.get_running_loop().time())
        answer = RedirectResponse(_target(request), _SEE_OTHER)
        answer.set_cookie(
            self._cookie(request),
            secret,
            max_age=int(LIFETIME_S),
            path=CONSOLE_PATH,
            secure=self._encrypted,
            httponly=True,
            samesite="strict",
        )
        return answer

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        fields = await fields_of(request)
        self.check_form(fields.get("token", ""), request.state.token)
        name = self._cookie(request)
        self._sessions.close(request.cookies.get(name, ""))
        answer = RedirectResponse(SIGN_IN_PATH, _SEE_OTHER)
        answer.delete_cookie(
            name, path=CONSOLE_PATH, secure=self._encrypted, httponly=True, samesite="strict"
        )
        return answer

    @staticmethod
    def check_form(given: str, wanted: str) -> None:
        """Raises PermissionDeniedError unless a form is of a page of this session."""
        if not hmac.compare_digest(given.encode(), wanted.encode()):
            raise PermissionDeniedError(
                "this form is of an older session, and nothing was done: go back, load the page again, repeat"
            )

    def _form(self, request: Request, fault: str) -> Response:
        request.state.caller, request.state.token = None, form_token(self._nobody)
        return self._frame.page(request, "sign_in.html", fault=fault, target=_target(request))

    def _cookie(self, request: Request) -> str:
        """Return its name: browsers send a cookie to every port of a host."""
        server = request.scope.get("server") or ("", 0)
        return f"headrace-console-{server[1]}"


def _target(request: Request) -> str:
    """Return the page that somebody wanted to see before they were asked who they are."""
    wanted = request.query_params.get("to", "")
    is_ours = wanted.startswith(f"{CONSOLE_PATH}/") and "\\" not in wanted and wanted.isprintable()
    return wanted if is_ours else f"{CONSOLE_PATH}/"
