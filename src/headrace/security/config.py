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
    token_key: str | None = tunable(
        None, help="File with the key that signs delegation tokens. None: one that is made in `data_dir`."
    )
    token_lifetime_s: float = tunable(
        600.0, low=6.0, high=86_400.0, help="For how long a delegation token is valid."
    )
    token_leeway_s: float = tunable(
        60.0,
        low=0.0,
        high=600.0,
        help="For how much longer a segment store accepts it, since clocks differ.",
    )
    readers_manage_groups: bool = tunable(
        default=True, help="Whether reader groups may be created and deleted with READ."
    )

    @property
    def enabled(self) -> bool:
        return self.users is not None or bool(self.handlers)
