from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ImageSource(_message.Message):
    __slots__ = ("host", "address", "ticket", "size_bytes", "digest", "timeout_ns")
    HOST_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    host: str
    address: str
    ticket: str
    size_bytes: int
    digest: bytes
    timeout_ns: int
    def __init__(self, host: _Optional[str] = ..., address: _Optional[str] = ..., ticket: _Optional[str] = ..., size_bytes: _Optional[int] = ..., digest: _Optional[bytes] = ..., timeout_ns: _Optional[int] = ...) -> None: ...

class OfferImage(_message.Message):
    __slots__ = ("image_key", "fetch_id", "ticket", "timeout_ns")
    IMAGE_KEY_FIELD_NUMBER: _ClassVar[int]
    FETCH_ID_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NS_FIELD_NUMBER: _ClassVar[int]
    image_key: str
    fetch_id: int
    ticket: str
    timeout_ns: int
    def __init__(self, image_key: _Optional[str] = ..., fetch_id: _Optional[int] = ..., ticket: _Optional[str] = ..., timeout_ns: _Optional[int] = ...) -> None: ...

class KeptImage(_message.Message):
    __slots__ = ("size_bytes", "digest")
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    size_bytes: int
    digest: bytes
    def __init__(self, size_bytes: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...
