"""StableHLO that nobody means well with: sizes, shardings, custom calls, calls of itself, and text that goes on and on.

Each is one `Hostile`: bytes as a client would send them, compiled for so many devices with these options. What becomes of one is
a sentence, or a program that does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

# Bigger than any memory; its bytes as 32-bit numbers do not fit into 64 bits.
_HUGE = 1 << 62
_LARGE = 1 << 40


@dataclass(frozen=True)
class Hostile:
    """A program; `overrides` are compiler options as a user writes them."""

    name: str
    program: bytes
    devices: int = 1
    overrides: tuple[tuple[str, int | float | str], ...] = field(default=())


def _main(body: str, arguments: str = "%x: tensor<4xf32>", results: str = "tensor<4xf32>", attributes: str = "") -> str:
    return f"module @hostile {attributes} {{\n  func.func public @main({arguments}) -> ({results}) {{\n{body}\n  }}\n}}\n"


_IDENTITY = "    return %x : tensor<4xf32>"


def _one(operation: str, kind: str = "tensor<4xf32>") -> str:
    return f"    %y = {operation}\n    return %y : {kind}"


def _call(target: str, operands: int, kind: str = "tensor<4xf32>", more: str = "") -> str:
    names, kinds = ", ".join(["%x"] * operands), ", ".join(["tensor<4xf32>"] * operands)
    return _main(_one(f"stablehlo.custom_call @{target}({names}) {{{more}}} : ({kinds}) -> {kind}", kind), results=kind)


def sizes() -> Iterator[tuple[str, str]]:
    """Shapes that no memory holds, or whose sizes do not fit into the numbers that say them."""
    for name, kind in (
        ("huge", f"tensor<{_HUGE}xf32>"),
        ("max", "tensor<9223372036854775807xi8>"),
        ("product", "tensor<2147483648x2147483648x4xf32>"),
        ("large", f"tensor<{_LARGE}xf32>"),
        ("rank", f"tensor<{'1x' * 300}f32>"),
        ("empty", "tensor<0x4xf32>"),
        ("huge-empty", f"tensor<0x{_HUGE}x{_HUGE}xf32>"),
    ):
        yield f"iota-{name}", _main(_one(f"stablehlo.iota dim = 0 : {kind}", kind), "", kind)
        yield f"argument-{name}", _main(f"    return %x : {kind}", f"%x: {kind}", kind)
        yield f"splat-{name}", _main(_one(f"stablehlo.constant dense<1.0> : {kind}", kind), "", kind)
        back = f"    %y = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> {kind}\n    return %s : tensor<f32>"
        yield f"unused-{name}", _main(back, "%s: tensor<f32>", "tensor<f32>")
    big = f"tensor<{_LARGE}xf32>"
    yield (
        "folded",
        _main(
            f"    %c = stablehlo.constant dense<1.0> : {big}\n    %d = stablehlo.add %c, %c : {big}\n"
            f"    %y = stablehlo.slice %d [0:4] : ({big}) -> tensor<4xf32>\n    return %y : tensor<4xf32>"
        ),
    )
    yield (
        "pad",
        _main(
            "    %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
            + _one(
                f"stablehlo.pad %x, %z, low = [{_HUGE}], high = [{_HUGE - 4}], interior = [0]"
                " : (tensor<4xf32>, tensor<f32>) -> tensor<9223372036854775804xf32>",
                "tensor<9223372036854775804xf32>",
            ),
            results="tensor<9223372036854775804xf32>",
        ),
    )
    yield "dot", _main(
        _one("stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<1x1099511627776xf32>,"
             " tensor<1x1099511627776xf32>) -> tensor<1099511627776x1099511627776xf32>",
             "tensor<1099511627776x1099511627776xf32>"),
        "%a: tensor<1x1099511627776xf32>, %b: tensor<1x1099511627776xf32>", "tensor<1099511627776x1099511627776xf32>",
    )  # fmt: skip
    yield "dynamic", _main(_one("stablehlo.add %x, %x : tensor<?xf32>", "tensor<?xf32>"), "%x: tensor<?xf32>", "tensor<?xf32>")
    yield (
        "dynamic-inside",
        _main(
            "    %n = stablehlo.constant dense<4> : tensor<1xi32>\n"
            "    %d = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>\n" + _IDENTITY
        ),
    )
    yield (
        "bounded",
        _main(
            "    %n = stablehlo.constant dense<2> : tensor<i32>\n"
            "    %d = stablehlo.set_dimension_size %x, %n, dim = 0 : ($f, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>\n"
            + _IDENTITY
        ),
    )


def element_types() -> Iterator[tuple[str, str]]:
    """Types that executors do not know, inside and at the border."""
    for kind in (
        "i7",
        "i128",
        "index",
        "f80",
        "f128",
        "complex<i32>",
        "complex<f16>",
        "!quant.uniform<i8:f32, 1.0>",
        "tuple<f32>",
    ):
        inside = f"tensor<4x{kind}>"
        yield f"border-{kind}", _main(f"    return %x : {inside}", f"%x: {inside}", inside)
    for kind in ("i2", "ui4", "f4E2M1FN", "f8E8M0FNU", "f8E3M4", "i7", "i128", "f80", "complex<f16>"):
        inside = f"tensor<4x{kind}>"
        body = f"    %c = stablehlo.convert %x : ($f) -> {inside}\n    %y = stablehlo.convert %c : ({inside}) -> $f\n"
        yield f"inside-{kind}", _main(body + "    return %y : tensor<4xf32>")
    yield "tuple", _main("    return %x : tuple<tensor<4xf32>>", "%x: tuple<tensor<4xf32>>", "tuple<tensor<4xf32>>")
    yield "not-a-tensor", _main("    return %x : i32", "%x: i32", "i32")
    yield "token", _main("    return %x : !stablehlo.token", "%x: !stablehlo.token", "!stablehlo.token")
    yield "no-results", _main("    return", results="")


MARKS = (
    "AllocateBuffer", "ApproxTopK", "LayoutConstraint", "MoveToDevice", "MoveToHost", "PadToStatic", "PartialReduce",
    "SPMDFullToShardShape", "SPMDShardToFullShape", "SetBound", "Sharding", "SliceToDynamic", "TopK", "X64Combine",
    "X64SplitHigh",
    "X64SplitLow", "annotate_device_placement", "dce_sink", "shape_assertion",
)  # fmt: skip
PREFIXED = ("xla.sdy.FuncResultSharding", "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape", "stablehlo.x",
"mhlo.topk",
            "chlo.erf", "xla.sdy.ShardingGroup", "stablehlo.dynamic_reduce_window", "mhlo.ragged_dot",
            "xla.sdy.PropagationBarrier")  # fmt: skip
LIBRARIES = (
    "Cholesky", "Eigh", "LuDecomposition", "ProductOfElementaryHouseholderReflectors", "Qr", "cpu_csr_sparse_dense_ffi",
    "ducc_fft",
    "dynamic_ducc_fft", "tridiagonal_solve_perturbed_ffi", "lapack_strsm_ffi", "lapack_sgetrf_ffi", "lapack_spotrf_ffi",
    "lapack_sgesdd_ffi", "lapack_ssyevd_ffi", "lapack_sgtsv_ffi",
)  # fmt: skip


def custom_calls() -> Iterator[tuple[str, str]]:
    """Targets that are allowed, with operands, results and words that they do not expect."""
    for target in (*MARKS, *PREFIXED, *LIBRARIES):
        shown = f'"{target}"' if "." in target else target
        for operands in (0, 1, 3):
            yield f"call-{target}-{operands}", _call(shown, operands)
        yield f"call-{target}-words", _call(shown, 1, more='backend_config = "{]unspecified_dims=[99],top_k=-1"')
        yield f"call-{target}-ffi", _call(shown, 2, more="api_version = 4 : i32, mhlo.backend_config = {k = -1 : i64}")
    yield "call-unknown", _call("somebody_elses_library", 1)
    yield "call-nameless", _call('""', 1)
    yield (
        "call-callback",
        _call("xla_ffi_python_cpu_callback", 1, more="api_version = 4 : i32, mhlo.backend_config = {index = 0 : ui64}"),
    )
    yield (
        "call-callback-far",
        _call("xla_ffi_python_cpu_callback", 1, more="mhlo.backend_config = {index = 18446744073709551615 : ui64}"),
    )
    yield "call-aliased", _call("Sharding", 1, more=(
        "output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [7], operand_index = 9,"
        " operand_tuple_indices = [3]>]"))  # fmt: skip
    yield (
        "call-layouts",
        _call(
            "Sharding", 1, more="operand_layouts = [dense<7> : tensor<1xindex>], result_layouts = [dense<9> : tensor<1xindex>]"
        ),
    )
    yield "call-computation", _call("Sharding", 1, more="called_computations = [@main]")


def shardings() -> Iterator[tuple[str, str]]:
    """Shardings that fit neither the arrays nor the devices."""
    for index, text in enumerate((
        "{devices=[2,1]0,1}", "{devices=[3]0,1,2}", "{devices=[2]0,0}", "{devices=[2]<=[4]}", "{devices=[2]7,9}",
        "{maximal device=7}",
        "{maximal device=-1}", "{manual}", "{devices=[0]}", "{devices=[-2]0,1}", "{garbage", "", "{{replicated},{replicated}}",
        "{devices=[2,2]<=[2] last_tile_dims={manual}}", "{devices=[1073741824]<=[1073741824]}", "{unreduced}", "\\\\02",
        "{devices=[4611686018427387904,2]<=[2]}", "{devices=[2]<=[2]T(5,7)}",
        "{devices=[2,1,1,1,1]<=[2] last_tile_dim_replicate}",
    )):  # fmt: skip
        yield f"gspmd-argument-{index}", _main(_IDENTITY, f'%x: tensor<4xf32> {{mhlo.sharding = "{text}"}}')
        yield f"gspmd-mark-{index}", _call("Sharding", 1, more=f'mhlo.sharding = "{text}"')
        yield f"gspmd-manual-{index}", _call("SPMDFullToShardShape", 1, more=f'mhlo.sharding = "{text}"')
    meshes = {
        "3": '@m = <["x"=3]>', "0": '@m = <["x"=0]>', "ids": '@m = <["x"=2], device_ids=[5, 7]>',
        "twice": '@m = <["x"=2, "x"=2]>',
        "huge": f'@m = <["x"={_HUGE}]>', "one": '@m = <["x"=2]>', "none": "@m = <[]>", "maximal": "@m = <[], device_ids=[9]>",
    }  # fmt: skip
    places = {
        "x": '<@m, [{"x"}]>', "two": '<@m, [{"x"}, {"x"}]>', "no-axis": '<@m, [{"q"}]>', "no-mesh": '<@nope, [{"x"}]>',
        "sub": '<@m, [{"x":(1)3}]>', "both": '<@m, [{"x", "x"}]>', "replicated": '<@m, [{}], replicated={"x"}>',
        "empty": "<@m, []>",
    }  # fmt: skip
    for mesh, said in meshes.items():
        for place, sharding in places.items():
            text = _main(_IDENTITY, f"%x: tensor<4xf32> {{sdy.sharding = #sdy.sharding{sharding}}}")
            yield f"shardy-{mesh}-{place}", text.replace("{\n", "{\n  sdy.mesh " + said + "\n", 1)
    manual = _main(
        '    %y = sdy.manual_computation(%x) in_shardings=[<@m, [{"x"}]>] out_shardings=[<@m, [{"x"}]>] manual_axes={"x"}'
        " (%a: $f) {\n      sdy.return %a : $f\n    } : ($f) -> $f\n    return %y : $f"
    )
    yield "shardy-manual", manual.replace("{\n", '{\n  sdy.mesh @m = <["x"=2]>\n', 1)
    for count in (0, -1, 3, 1 << 30):
        for name in ("num_partitions", "num_replicas"):
            yield f"module-{name}-{count}", _main(_IDENTITY, attributes=f"attributes {{mhlo.{name} = {count} : i32}}")


def aliases() -> Iterator[tuple[str, str]]:
    """Donations that cannot be."""
    for number in (-1, 7, 1 << 30):
        yield f"alias-{number}", _main(_IDENTITY, f"%x: tensor<4xf32> {{tf.aliasing_output = {number} : i32}}")
    twice = ", ".join(f"%{name}: tensor<4xf32> {{tf.aliasing_output = 0 : i32}}" for name in "xy")
    yield "alias-twice", _main(_IDENTITY, twice)
    yield "alias-shape", _main(_IDENTITY, "%x: tensor<4xf32>, %b: tensor<9xf64> {tf.aliasing_output = 0 : i32}")
    yield "alias-both", _main(_IDENTITY, "%x: tensor<4xf32> {tf.aliasing_output = 0 : i32, jax.buffer_donor = true}")
    yield "alias-words", _main(_IDENTITY, '%x: tensor<4xf32> {tf.aliasing_output = "zero"}')
    yield "layout-mode", _main(_IDENTITY, '%x: tensor<4xf32> {mhlo.layout_mode = "{9,9}", mhlo.memory_kind = "nowhere"}')
    yield "memory-kind", _main(_IDENTITY, '%x: tensor<4xf32> {mhlo.memory_kind = "pinned_host"}')


def collectives() -> Iterator[tuple[str, str]]:
    """Groups and pairs of devices that are not there, and operations that wait for somebody outside."""
    for index, groups in enumerate(("[[0, 99]]", "[[0, 0]]", "[[-5, 0]]", "[[0], [0]]", "[[0, 1], [2, 3]]")):
        rows = groups.count("[") - 1
        columns = groups.split("]")[0].count(",") + 1
        kind = f"dense<{groups}> : tensor<{rows}x{columns}xi64>"
        for handle in (0, 1, -1):
            channel = f"channel_handle = #stablehlo.channel_handle<handle = {handle}, type = 0>, "
            body = (
                f'    %y = "stablehlo.all_reduce"(%x) <{{{channel}replica_groups = {kind}}}> ({{\n'
                "    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n      %s = stablehlo.add %a, %b : tensor<f32>\n"
                "      stablehlo.return %s : tensor<f32>\n    }) : ($f) -> $f\n    return %y : $f"
            )
            yield f"all-reduce-{index}-{handle}", _main(body)
    for index, pairs in enumerate(("[[0, 5]]", "[[0, 0]]", "[[-1, 0]]", "[[0, 1], [0, 0]]", "[[7, 8]]")):
        rows = pairs.count("[") - 1
        yield f"permute-{index}", _main(_one(
            f'"stablehlo.collective_permute"(%x) <{{source_target_pairs = dense<{pairs}> : tensor<{rows}x2xi64>,'
            " channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : ($f) -> $f"))  # fmt: skip
    yield "all-to-all", _main(_one(
        '"stablehlo.all_to_all"(%x) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 4 : i64,'
        " replica_groups ="
        " dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<4xf32>) -> tensor<4xf32>"))  # fmt: skip
    token = "    %t = stablehlo.create_token : !stablehlo.token\n"
    yield (
        "infeed",
        _main(
            token + '    %y:2 = "stablehlo.infeed"(%t) <{infeed_config = ""}> : (!stablehlo.token) -> ($f, !stablehlo.token)\n'
            "    return %y#0 : tensor<4xf32>"
        ),
    )
    yield (
        "outfeed",
        _main(
            token
            + '    %y = "stablehlo.outfeed"(%x, %t) <{outfeed_config = ""}> : ($f, !stablehlo.token) -> !stablehlo.token\n'
            + _IDENTITY
        ),
    )
    for kind in (1, 2, 3):
        yield (
            f"send-{kind}",
            _main(
                token
                + f'    %y = "stablehlo.send"(%x, %t) <{{channel_handle = #stablehlo.channel_handle<handle = 5, type = {kind}>,'
                f" is_host_transfer = {'true' if kind != 1 else 'false'}}}> : ($f, !stablehlo.token) -> !stablehlo.token\n"
                + _IDENTITY
            ),
        )
        yield (
            f"recv-{kind}",
            _main(
                token
                + f'    %y:2 = "stablehlo.recv"(%t) <{{channel_handle = #stablehlo.channel_handle<handle = 5, type = {kind}>,'
                f" is_host_transfer = {'true' if kind != 1 else 'false'}}}> : (!stablehlo.token) -> ($f, !stablehlo.token)\n"
                "    return %y#0 : tensor<4xf32>"
            ),
        )


def structure() -> Iterator[tuple[str, str]]:
    """Modules without a beginning, or with no end."""
    function = (
        "  func.func {visible} @{name}(%x: tensor<4xf32>) -> tensor<4xf32> {{\n    {body}\n    return %y : tensor<4xf32>\n  }}\n"
    )
    called = "%y = func.call @{0}(%x) : (tensor<4xf32>) -> tensor<4xf32>"
    yield "calls-itself", "module {\n" + function.format(visible="public", name="main", body=called.format("main")) + "}\n"
    both = function.format(visible="public", name="main", body=called.format("other"))
    both += function.format(visible="private", name="other", body=called.format("main"))
    yield "calls-in-a-circle", "module {\n" + both + "}\n"
    loop = function.format(visible="private", name="other", body=called.format("other"))
    yield (
        "calls-a-circle",
        "module {\n" + function.format(visible="public", name="main", body=called.format("other")) + loop + "}\n",
    )
    composite = '%y = stablehlo.composite "a.b" %x {{decomposition = @{0}}} : (tensor<4xf32>) -> tensor<4xf32>'
    yield (
        "composite-of-itself",
        "module {\n" + function.format(visible="public", name="main", body=composite.format("main")) + "}\n",
    )
    yield (
        "composite-of-nothing",
        "module {\n" + function.format(visible="public", name="main", body=composite.format("no")) + "}\n",
    )
    yield "calls-nothing", "module {\n" + function.format(visible="public", name="main", body=called.format("nobody")) + "}\n"
    chain = function.format(visible="public", name="main", body=called.format("f0"))
    for number in range(60):
        double = f"%a = func.call @f{number + 1}(%x) : ($f) -> $f\n    %y = func.call @f{number + 1}(%a) : ($f) -> $f"
        chain += function.format(visible="private", name=f"f{number}", body=double)
    chain += function.format(visible="private", name="f60", body="%y = stablehlo.add %x, %x : tensor<4xf32>")
    yield "calls-doubled-60-times", "module {\n" + chain + "}\n"
    yield "empty", "module {\n}\n"
    yield "no-main", _main(_IDENTITY).replace("@main", "@other")
    yield "private-main", _main(_IDENTITY).replace("public", "private")
    yield "declared-main", "module {\n  func.func private @main(tensor<4xf32>) -> tensor<4xf32>\n}\n"
    yield "nested", "module {\n" + _main(_IDENTITY) + "}\n"
    yield "two-modules", _main(_IDENTITY) * 2
    yield "only-a-function", "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n    return %x : tensor<4xf32>\n}\n"
    yield "other-dialects", _main(_one("arith.addf %x, %x : tensor<4xf32>"))
    yield "cast", _main(_one("builtin.unrealized_conversion_cast %x : tensor<4xf32> to tensor<4xf32>"))
    yield (
        "same-result-often",
        _main(
            "    return " + ", ".join(["%x"] * 500) + " : " + ", ".join(["tensor<4xf32>"] * 500),
            results=", ".join(["tensor<4xf32>"] * 500),
        ),
    )
    long = "    %y0 = stablehlo.add %x, %x : tensor<4xf32>\n" + "".join(
        f"    %y{n} = stablehlo.add %y{n - 1}, %x : tensor<4xf32>\n" for n in range(1, 20000)
    )
    yield "long-chain", _main(long + "    return %y19999 : tensor<4xf32>")
    deep = 3000
    inside = "stablehlo.return %x : tensor<4xf32>"
    text = (
        "".join('%r = "stablehlo.if"(%p) ({\n' for _ in range(deep))
        + inside
        + "".join(
            "\n}, { stablehlo.return %x : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>\nstablehlo.return %r : tensor<4xf32>"
            for _ in range(deep)
        )
    )
    text = text[: text.rindex("stablehlo.return %r")] + "return %r : tensor<4xf32>"
    yield "deep-choices", _main(text, "%x: tensor<4xf32>, %p: tensor<i1>")
    loop_text = (
        "    %y = stablehlo.while(%i = %x) : $f\n    cond {\n      %c = stablehlo.constant dense<true> : tensor<4xi1>\n"
        "      stablehlo.return %c : tensor<4xi1>\n    } do {\n      stablehlo.return %i : $f\n    }\n    return %y : $f"
    )
    yield "loop-of-vectors", _main(loop_text)


def texts() -> Iterator[tuple[str, bytes]]:
    """Text that a parser would follow down without an end, and text that is none."""
    for name, text in (
        ("modules", "module {" * 100_000), ("tuples", "module { func.func @main(%x: " + "tuple<" * 100_000),
        ("brackets", "module attributes {a = " + "[" * 100_000), ("dictionaries",
        "module attributes {a = " + "{a = " * 100_000),
        ("dense", "module { func.func @main() { %c = stablehlo.constant dense<" + "[" * 100_000),
        ("parentheses", "module attributes {a = " + "(" * 100_000), ("digits",
        "module attributes {a = " + "9" * 1_000_000 + " : i64}"),
        ("functions", "module attributes {a = " + "() -> " * 100_000), ("affine",
        "module attributes {a = affine_map<(d0) -> (" + "(" * 100_000),
        ("locations", "module {} loc(" + "fused[" * 100_000), ("complex",
        "module { func.func @main(%x: " + "complex<" * 100_000),
        ("vectors", "module { func.func @main(%x: tensor<" + "1x" * 1_000_000 + "f32>"), ("memref",
        "module { func.func @main(%x: " + "memref<1x" * 100_000),
        ("dialect", "module attributes {a = #stablehlo.bounds<" + "1," * 100_000), ("minus",
        "module attributes {a = affine_map<(d0) -> (" + "-" * 100_000),
        ("strings", 'module attributes {a = "' + "\\00" * 100_000), ("alias", "#a = #a\nmodule attributes {b = #a} {}"),
        ("alias-chain", "".join(f"#a{n} = [#a{n - 1}, #a{n - 1}]\n" for n in range(1, 40)) + "module {}"),
    ):  # fmt: skip
        yield f"text-{name}", text.encode()
    yield "text-zero", b"module {\x00}"
    yield "text-latin", b"module @\xff\xfe {}"
    yield "text-cut", _main(_IDENTITY).encode()[:-9]
    yield "bytecode-head", b"ML\xefR"
    yield "bytecode-newer", b"ML\xefR\xff\xff\xff\xff\xff\xff\xff\xff\xffStableHLO_v999.0.0\x00"
    yield "bytecode-noise", b"ML\xefR\x01StableHLO_v1.0.0\x00" + bytes(range(256)) * 4
    yield "artifact-noise", bytes(range(256)) * 8
    yield "colocated", b"pathways-colocated"


OPTIONS: tuple[tuple[str, tuple[int | float | str, ...]], ...] = (
    ("xla_backend_optimization_level", (-1, 99, 2147483647)),
    ("xla_cpu_parallel_codegen_split_count", (0, -1, 2147483647)),
    ("xla_cpu_prefer_vector_width", (0, -1, 3, 2147483647)),
    ("xla_reduce_window_rewrite_base_length", (0, 1, -1, 9223372036854775807)),
    ("xla_test_all_input_layouts", (1,)),
    ("xla_test_all_output_layouts", (1,)),
    ("xla_cpu_use_thunk_runtime", (0,)),
    ("xla_cpu_use_onednn", (1,)),
    ("xla_cpu_optimize_for_size", (1,)),
    ("xla_embed_ir_in_executable", (1,)),
    ("xla_hlo_evaluator_use_fast_path", (1,)),
    ("xla_cpu_enable_fast_math", (1, "perhaps")),
    ("xla_dump_to", ("dumped",)),
    ("no_such_option", (1,)),
)


def options() -> Iterator[Hostile]:
    """A sensible program with senseless options."""
    sums = _main(
        "    %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        '    %y = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 4>,'
        " padding = dense<[[3, 0]]> : tensor<1x2xi64>}> ({\n"
        "    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n      %s = stablehlo.add %a, %b : tensor<f32>\n"
        "      stablehlo.return %s : tensor<f32>\n    }) : ($f, tensor<f32>) -> $f\n    return %y : $f"
    )
    for name, values in OPTIONS:
        for value in values:
            yield Hostile(f"option-{name}={value}", _written(sums), 1, ((name, value),))


def _written(text: str) -> bytes:
    """With the types that are abbreviated above."""
    return text.replace("$f", "tensor<4xf32>").replace("$t", "!stablehlo.token").encode()


def hostile_modules() -> list[Hostile]:
    """All of them, for one device; those about shardings and collectives also for two."""
    found = [Hostile(name, data) for name, data in texts()]
    for group in (sizes, element_types, custom_calls, aliases, structure):
        found += [Hostile(name, _written(text)) for name, text in group()]
    for group in (shardings, collectives):
        found += [Hostile(f"{name}-on-{count}", _written(text), count) for name, text in group() for count in (1, 2)]
    return found + list(options())


# One of each kind that ended a process before executors looked for it, and of those that are XLA's own to refuse.
DEADLY = (
    "text-modules", "text-tuples", "text-digits", "text-vectors", "text-affine", "bytecode-head", "bytecode-noise", "text-latin",
    "iota-huge", "iota-max", "argument-product", "splat-huge", "dot", "dynamic", "border-i7", "tuple", "argument-rank",
    "calls-itself", "calls-in-a-circle", "calls-a-circle", "composite-of-itself", "calls-doubled-60-times", "declared-main",
    "deep-choices", "no-main", "call-Sharding-0", "call-SPMDFullToShardShape-3", "call-SetBound-0", "call-LayoutConstraint-0",
    "call-TopK-1", "call-SliceToDynamic-1", "call-xla.sdy.FuncResultSharding-1", "call-Qr-0", "call-Eigh-0", "call-computation",
    "call-unknown", "call-callback-far", "gspmd-argument-9-on-2", "gspmd-mark-15-on-2", "infeed-on-1", "outfeed-on-1",
    "option-xla_reduce_window_rewrite_base_length=-1", "option-xla_cpu_parallel_codegen_split_count=-1", "alias-7",
)  # fmt: skip
