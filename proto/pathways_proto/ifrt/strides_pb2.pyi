from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ArrayCopySemantics(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ARRAY_COPY_SEMANTICS_UNSPECIFIED: _ClassVar[ArrayCopySemantics]
    ARRAY_COPY_SEMANTICS_ALWAYS_COPY: _ClassVar[ArrayCopySemantics]
    ARRAY_COPY_SEMANTICS_REUSE_INPUT: _ClassVar[ArrayCopySemantics]
    ARRAY_COPY_SEMANTICS_DONATE_INPUT: _ClassVar[ArrayCopySemantics]
ARRAY_COPY_SEMANTICS_UNSPECIFIED: ArrayCopySemantics
ARRAY_COPY_SEMANTICS_ALWAYS_COPY: ArrayCopySemantics
ARRAY_COPY_SEMANTICS_REUSE_INPUT: ArrayCopySemantics
ARRAY_COPY_SEMANTICS_DONATE_INPUT: ArrayCopySemantics

class ByteStrides(_message.Message):
    __slots__ = ("strides",)
    STRIDES_FIELD_NUMBER: _ClassVar[int]
    strides: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, strides: _Optional[_Iterable[int]] = ...) -> None: ...
