from pathways_proto.ifrt import values_pb2 as _values_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CustomCallProgramProto(_message.Message):
    __slots__ = ("version_number", "type", "name", "serialized_program_text", "devices", "input_specs", "output_specs")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SERIALIZED_PROGRAM_TEXT_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    INPUT_SPECS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SPECS_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    type: str
    name: str
    serialized_program_text: bytes
    devices: _values_pb2.DeviceListProto
    input_specs: _containers.RepeatedCompositeFieldContainer[_values_pb2.ArraySpecProto]
    output_specs: _containers.RepeatedCompositeFieldContainer[_values_pb2.ArraySpecProto]
    def __init__(self, version_number: _Optional[int] = ..., type: _Optional[str] = ..., name: _Optional[str] = ..., serialized_program_text: _Optional[bytes] = ..., devices: _Optional[_Union[_values_pb2.DeviceListProto, _Mapping]] = ..., input_specs: _Optional[_Iterable[_Union[_values_pb2.ArraySpecProto, _Mapping]]] = ..., output_specs: _Optional[_Iterable[_Union[_values_pb2.ArraySpecProto, _Mapping]]] = ...) -> None: ...
