"""Who may do what. Every route of every gateway names the action it needs and asks here before it acts.

Until users are configured everything is allowed, and the server listens on loopback only.
"""

from typing import Protocol

from penstock.model import Action


class Authorizer(Protocol):
    def check(self, who: str, action: Action, resource: str) -> None:
        """Return when it is allowed, raise NotAuthorized when not."""
        ...


class AllowAll:
    def check(self, who: str, action: Action, resource: str) -> None:
        return None
