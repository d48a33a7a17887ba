"""TLS on the links between controller and workers, for benchmarks: the product has none, its links are for private networks."""

from __future__ import annotations

import functools
import ssl
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from pathways_common.model.failure import Reason, fail
from pathways_common.rpc import channels, framed_call
from pathways_common.rpc.channels import parse_address
from pathways_door import session_call
from pathways_server.app import App
from pathways_server.config import Config
from pathways_worker.rpc import controller_link


def secure_channel(address: str, certificate: Path) -> grpc.aio.Channel:
    """As `open_channel`, but encrypted."""
    credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
    options = [*channels._SHARED, ("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
    return grpc.aio.secure_channel(parse_address(address), credentials, options=options)


def secure_links(certificate: Path) -> None:
    """Every link that this process opens from now on is encrypted."""
    context = ssl.create_default_context(cafile=str(certificate))
    patched: Any = controller_link
    session: Any = session_call
    patched.open_channel = functools.partial(secure_channel, certificate=certificate)
    patched.dial = session.dial = functools.partial(framed_call.dial, tls=context)


class SecureApp(App):
    """A controller both of whose ports are encrypted."""

    def __init__(self, config: Config, certificate: Path) -> None:
        super().__init__(config)
        self._certificate = certificate

    async def _bind(self, listen: str) -> str:
        key = self._certificate.with_name("key.pem").read_bytes()
        credentials = grpc.ssl_server_credentials(((key, self._certificate.read_bytes()),))
        bound = self._server.add_secure_port(listen, credentials)
        if not bound:
            raise fail(Reason.INVALID_ARGUMENT, f"cannot listen on {listen}")
        return f"{listen.rpartition(':')[0]}:{bound}"

    async def _listen_links(self) -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, self._certificate.with_name("key.pem"))
        return await self._links.listen("127.0.0.1", 0, context)
