"""Who makes a call: what it may see, and whether it may change anything.

Every service asks here, so that a tenant's token shows a tenant no more than its own in any view.
"""

from __future__ import annotations

from typing import Any

from pathways_common.model.failure import Reason, fail
from pathways_common.rpc.auth import authorization

from pathways_server.core.tenant_records import TenantName
from pathways_server.shell.tenant_book import By, TenantBook
from pathways_server.shell.tenant_tokens import Caller


class Callers:
    """Answers from the metadata of a call, which the interceptor has checked."""

    def __init__(self, book: TenantBook) -> None:
        self._book = book

    def caller(self, context: Any) -> Caller:
        """Who calls; raises PathwaysError (UNAUTHENTICATED) for nobody."""
        sent = authorization(context.invocation_metadata())
        found = self._book.tokens.caller(sent)
        if found is None:
            raise fail(Reason.UNAUTHENTICATED, self._book.tokens.problem(sent) or "")
        return found

    def visible_tenant(self, context: Any) -> TenantName | None:
        """The only tenant that the call may be shown anything of; None: an administrator calls, who sees all."""
        found = self.caller(context)
        return None if found.administrator else found.tenant

    def by(self, context: Any) -> By:
        """Who calls and from where, for what is written down."""
        return By(self.caller(context), str(context.peer()))

    def administrator(self, context: Any) -> By:
        """The same; raises PathwaysError (UNAUTHENTICATED) unless it is an administrator."""
        by = self.by(context)
        if not by.caller.administrator:
            sentence = (
                f"this needs the administrator's token, which is in the controller's state directory; the one that was sent"
                f" belongs to tenant {by.caller.tenant}"
            )
            raise fail(Reason.UNAUTHENTICATED, sentence, tenant=by.caller.tenant)
        return by
