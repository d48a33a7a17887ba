// Emulated device time: a step of a program that takes so long and leaves the host's cores alone, as an accelerator does.
//
// The start marker notes when the step began. The end marker sleeps until the step has lasted as long as it was told, and adds
// what it really lasted to the busy time of this process. Both pass their array on; what else they pass on is when it began.

#include <sys/prctl.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

std::atomic<int64_t> busy_ns{0};

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void Pass(ffi::AnyBuffer from, ffi::Result<ffi::AnyBuffer> to) {
  if (from.untyped_data() != to->untyped_data()) std::memcpy(to->untyped_data(), from.untyped_data(), from.size_bytes());
}

ffi::Error Start(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y, ffi::Result<ffi::Buffer<ffi::U32>> began) {
  Pass(x, y);
  const int64_t now_ns = NowNs();
  began->typed_data()[0] = static_cast<uint32_t>(now_ns);
  began->typed_data()[1] = static_cast<uint32_t>(now_ns >> 32);
  return ffi::Error::Success();
}

ffi::Error End(ffi::AnyBuffer x, ffi::Buffer<ffi::U32> began, ffi::Buffer<ffi::U32> lasts_ns, ffi::Result<ffi::AnyBuffer> y) {
  Pass(x, y);
  // A thread sleeps up to 50 us too long otherwise.
  static thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL);
  (void)slack;
  const int64_t began_ns = static_cast<int64_t>(began.typed_data()[1]) << 32 | began.typed_data()[0];
  const int64_t ends_ns = began_ns + lasts_ns.typed_data()[0];
  const timespec until = {ends_ns / 1000000000LL, ends_ns % 1000000000LL};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
  busy_ns += NowNs() - began_ns;
  return ffi::Error::Success();
}

// The busy time of this process so far, in microseconds modulo 2^32: whoever reads it subtracts.
ffi::Error Busy(ffi::AnyBuffer x, ffi::Result<ffi::Buffer<ffi::U32>> busy_us) {
  (void)x;
  const uint32_t value = static_cast<uint32_t>(busy_ns.load() / 1000);
  for (size_t i = 0; i < busy_us->element_count(); ++i) busy_us->typed_data()[i] = value;
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(PathwaysBenchStart, Start,
                              ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>().Ret<ffi::Buffer<ffi::U32>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    PathwaysBenchEnd, End,
    ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Arg<ffi::Buffer<ffi::U32>>().Arg<ffi::Buffer<ffi::U32>>().Ret<ffi::AnyBuffer>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(PathwaysBenchBusy, Busy,
                              ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::Buffer<ffi::U32>>());

struct Target {
  const char* name;
  void* handler;
  int64_t infallible;
};

extern "C" Target pathways_ffi_targets[] = {
    {"pathways_bench_start", reinterpret_cast<void*>(PathwaysBenchStart), 1},
    {"pathways_bench_end", reinterpret_cast<void*>(PathwaysBenchEnd), 1},
    {"pathways_bench_busy", reinterpret_cast<void*>(PathwaysBenchBusy), 1},
    {nullptr, nullptr, 0},
};
