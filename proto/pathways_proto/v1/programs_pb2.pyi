from pathways_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Dispatch(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISPATCH_UNSPECIFIED: _ClassVar[Dispatch]
    DISPATCH_PARALLEL: _ClassVar[Dispatch]
    DISPATCH_SEQUENTIAL: _ClassVar[Dispatch]
DISPATCH_UNSPECIFIED: Dispatch
DISPATCH_PARALLEL: Dispatch
DISPATCH_SEQUENTIAL: Dispatch

class Program(_message.Message):
    __slots__ = ("name", "devices", "computations", "graphs", "dispatch", "fused_groups")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    COMPUTATIONS_FIELD_NUMBER: _ClassVar[int]
    GRAPHS_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    FUSED_GROUPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    devices: _containers.RepeatedScalarFieldContainer[int]
    computations: _containers.RepeatedCompositeFieldContainer[Computation]
    graphs: _containers.RepeatedCompositeFieldContainer[Graph]
    dispatch: Dispatch
    fused_groups: _containers.RepeatedCompositeFieldContainer[FusedGroup]
    def __init__(self, name: _Optional[str] = ..., devices: _Optional[_Iterable[int]] = ..., computations: _Optional[_Iterable[_Union[Computation, _Mapping]]] = ..., graphs: _Optional[_Iterable[_Union[Graph, _Mapping]]] = ..., dispatch: _Optional[_Union[Dispatch, str]] = ..., fused_groups: _Optional[_Iterable[_Union[FusedGroup, _Mapping]]] = ...) -> None: ...

class Computation(_message.Message):
    __slots__ = ("executable_id", "parameters", "results")
    EXECUTABLE_ID_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    executable_id: int
    parameters: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    results: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    def __init__(self, executable_id: _Optional[int] = ..., parameters: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ...) -> None: ...

class FusedGroup(_message.Message):
    __slots__ = ("graph", "first_node", "last_node", "computation", "inputs", "outputs")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    FIRST_NODE_FIELD_NUMBER: _ClassVar[int]
    LAST_NODE_FIELD_NUMBER: _ClassVar[int]
    COMPUTATION_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    graph: int
    first_node: int
    last_node: int
    computation: Computation
    inputs: _containers.RepeatedCompositeFieldContainer[NodeInput]
    outputs: _containers.RepeatedCompositeFieldContainer[Edge]
    def __init__(self, graph: _Optional[int] = ..., first_node: _Optional[int] = ..., last_node: _Optional[int] = ..., computation: _Optional[_Union[Computation, _Mapping]] = ..., inputs: _Optional[_Iterable[_Union[NodeInput, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[Edge, _Mapping]]] = ...) -> None: ...

class NodeInput(_message.Message):
    __slots__ = ("node", "input")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    node: int
    input: int
    def __init__(self, node: _Optional[int] = ..., input: _Optional[int] = ...) -> None: ...

class Graph(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("name", "source", "inputs", "argument", "computation", "result", "branch", "loop")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_FIELD_NUMBER: _ClassVar[int]
    COMPUTATION_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    LOOP_FIELD_NUMBER: _ClassVar[int]
    name: str
    source: str
    inputs: _containers.RepeatedCompositeFieldContainer[Edge]
    argument: ArgumentNode
    computation: ComputationNode
    result: ResultNode
    branch: BranchNode
    loop: LoopNode
    def __init__(self, name: _Optional[str] = ..., source: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[Edge, _Mapping]]] = ..., argument: _Optional[_Union[ArgumentNode, _Mapping]] = ..., computation: _Optional[_Union[ComputationNode, _Mapping]] = ..., result: _Optional[_Union[ResultNode, _Mapping]] = ..., branch: _Optional[_Union[BranchNode, _Mapping]] = ..., loop: _Optional[_Union[LoopNode, _Mapping]] = ...) -> None: ...

class Edge(_message.Message):
    __slots__ = ("node", "output", "sparse")
    NODE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SPARSE_FIELD_NUMBER: _ClassVar[int]
    node: int
    output: int
    sparse: SparseEdge
    def __init__(self, node: _Optional[int] = ..., output: _Optional[int] = ..., sparse: _Optional[_Union[SparseEdge, _Mapping]] = ...) -> None: ...

class SparseEdge(_message.Message):
    __slots__ = ("elements_max", "progress")
    ELEMENTS_MAX_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    elements_max: int
    progress: Edge
    def __init__(self, elements_max: _Optional[int] = ..., progress: _Optional[_Union[Edge, _Mapping]] = ...) -> None: ...

class ArgumentNode(_message.Message):
    __slots__ = ("specs",)
    SPECS_FIELD_NUMBER: _ClassVar[int]
    specs: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    def __init__(self, specs: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ...) -> None: ...

class ComputationNode(_message.Message):
    __slots__ = ("computation",)
    COMPUTATION_FIELD_NUMBER: _ClassVar[int]
    computation: int
    def __init__(self, computation: _Optional[int] = ...) -> None: ...

class ResultNode(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BranchNode(_message.Message):
    __slots__ = ("graphs", "limits", "results")
    GRAPHS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    graphs: _containers.RepeatedScalarFieldContainer[int]
    limits: _containers.RepeatedScalarFieldContainer[int]
    results: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    def __init__(self, graphs: _Optional[_Iterable[int]] = ..., limits: _Optional[_Iterable[int]] = ..., results: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ...) -> None: ...

class LoopNode(_message.Message):
    __slots__ = ("condition", "body", "max_iterations", "carried")
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    MAX_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    CARRIED_FIELD_NUMBER: _ClassVar[int]
    condition: int
    body: int
    max_iterations: int
    carried: _containers.RepeatedCompositeFieldContainer[_types_pb2.ArraySpec]
    def __init__(self, condition: _Optional[int] = ..., body: _Optional[int] = ..., max_iterations: _Optional[int] = ..., carried: _Optional[_Iterable[_Union[_types_pb2.ArraySpec, _Mapping]]] = ...) -> None: ...
