"""Settings of authentication and authorization. Secrets are never settings, only files are."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.runtime.settings import tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthConfig:
    """Who may do what. Without `users` and `handlers` everybody may do everything."""

    users: str | None = tunable(None, help="File of users, passwords and grants (`headrace user`).")
    handlers: str = tunable(
        "", help="Methods, separated by commas, whose handlers are entry points of headrace.auth_handlers."
    )
    readers_manage_groups: bool = tunable(
        default=True, help="Whether reader groups may be created and deleted with READ."
    )

    @property
    def enabled(self) -> bool:
        return self.users is not None or bool(self.handlers)
