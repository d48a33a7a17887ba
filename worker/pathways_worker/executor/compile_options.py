"""Compile options are rebuilt from an allow-list; what a client sent is only read.

Kept: how the program is partitioned, effort levels, and options that change numbers or speed. Dropped: the client's debug
options, which name files and dumps on its own machine (`xla_dump_to` wrote files on the server), and options that a user named
and that mean nothing here. Refused with a sentence: other compiler options that a user named and that are off the list, because
leaving them out silently would be a surprise.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from pathways_common.model.failure import Reason

from pathways_worker.executor.failures import refuse

OptionValue: TypeAlias = str | bool | int | float

# The door strips it; named here so that a program from elsewhere gets no odd message.
CALLBACKS_KEY = "pathways_host_callbacks"

# ExecutableBuildOptions that decide how a program is partitioned and how hard it is optimised.
BUILD_FIELDS = (
    "num_replicas",
    "num_partitions",
    "use_spmd_partitioning",
    "use_shardy_partitioner",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "exec_time_optimization_effort",
    "memory_fitting_effort",
    "optimization_level",
    "memory_fitting_level",
)

# DebugOptions of the client that are kept: they change numbers or compile time and name nothing outside the process.
DEBUG_FIELDS = (
    "xla_backend_optimization_level",
    "xla_cpu_enable_fast_math",
    "xla_cpu_fast_math_honor_division",
    "xla_cpu_fast_math_honor_functions",
    "xla_cpu_fast_math_honor_infs",
    "xla_cpu_fast_math_honor_nans",
    "xla_llvm_disable_expensive_passes",
)

# XLA makes as many parts as it is told to, and believes that a length is not negative.
NUMBER_MAX = 4096

USER_OPTIONS = frozenset(DEBUG_FIELDS) | frozenset(
    {
        "xla_allow_excess_precision",
        "xla_cpu_copy_insertion_use_region_analysis",
        "xla_cpu_disable_loop_unrolling",
        "xla_cpu_disable_new_fusion_emitters",
        "xla_cpu_disable_slp_vectorizer",
        "xla_cpu_enable_concurrency_optimized_scheduler",
        "xla_cpu_enable_fast_min_max",
        "xla_cpu_enable_platform_dependent_math",
        "xla_cpu_multi_thread_eigen",
        "xla_cpu_optimize_for_size",
        "xla_cpu_parallel_codegen_split_count",
        "xla_cpu_prefer_vector_width",
        "xla_cpu_strict_dot_conv_math",
        "xla_cpu_use_fusion_emitters",
        "xla_cpu_use_onednn",
        "xla_cpu_use_thunk_runtime",
        "xla_cpu_use_xnnpack",
        "xla_eliminate_hlo_implicit_broadcast",
        "xla_embed_ir_in_executable",
        "xla_hlo_evaluator_use_fast_path",
        "xla_reduce_window_rewrite_base_length",
        "xla_test_all_input_layouts",
        "xla_test_all_output_layouts",
    }
)

# Read by the compilers of other devices, or only together with options that are refused: plain JAX takes them on CPUs, too.
WITHOUT_EFFECT_PREFIX, WITHOUT_EFFECT = "xla_gpu_", frozenset({"xla_dump_max_hlo_modules"})


def check_user_option(name: str, value: OptionValue) -> bool:
    """Whether to keep an option that the user named; refuses what is off the list."""
    if name == CALLBACKS_KEY or name.startswith(WITHOUT_EFFECT_PREFIX) or name in WITHOUT_EFFECT:
        return False
    if name in USER_OPTIONS and isinstance(value, bool | int | float | str):
        if not isinstance(value, bool | str) and not 0 <= value <= NUMBER_MAX:
            sentence = f"compiler option {name!r} is {value}; give a number from 0 to {NUMBER_MAX}"
            raise refuse(Reason.INVALID_ARGUMENT, sentence, option=name)
        return True
    if not name.startswith("xla_"):
        raise refuse(Reason.INVALID_ARGUMENT, f"No such compile option: '{name}'", option=name)
    raise refuse(
        Reason.PROGRAM_REFUSED,
        f"compiler option {name!r} is not allowed on shared executors; remove it from compiler_options",
        option=name,
    )


def rebuild(received: Any, fresh: Any) -> Any:
    """Copies what is allowed from one CompileOptions to a fresh one of this process and returns that.

    The device assignment is not copied: the caller sets this epoch's.
    """
    source, target = received.executable_build_options, fresh.executable_build_options
    for field in BUILD_FIELDS:
        value = getattr(source, field, None)
        if value is not None:
            setattr(target, field, value)
    fresh.num_replicas = target.num_replicas
    fresh.num_partitions = target.num_partitions
    fresh.parameter_is_tupled_arguments = bool(received.parameter_is_tupled_arguments)
    for field in DEBUG_FIELDS:
        setattr(target.debug_options, field, getattr(source.debug_options, field))
    fresh.env_option_overrides = [
        (name, value) for name, value in received.env_option_overrides if check_user_option(name, value)
    ]
    return fresh
