// Emulated device time: a step of a program that takes so long and leaves the host's cores alone, as an accelerator does.
//
// The start marker notes when the step began. The end marker sleeps until the step has lasted as long as it was told, and adds
// what it really lasted to the busy time of this process. Both pass their array on; what else they pass on is when it began.
// With EMULATOR_TIMELINE set to a folder, the end marker also writes each step there, into a file of this process: three
// native 64-bit numbers, when it began and ended (CLOCK_MONOTONIC) and how long it was told to last.

#include <fcntl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

std::atomic<int64_t> busy_ns{0};

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int OpenTimeline() {
  const char* folder = std::getenv("EMULATOR_TIMELINE");
  if (folder == nullptr) return -1;
  const std::string path = std::string(folder) + "/" + std::to_string(getpid());
  return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

void Record(int64_t began_ns, int64_t ended_ns, int64_t lasts_ns) {
  static const int timeline = OpenTimeline();
  if (timeline < 0) return;
  const int64_t row[3] = {began_ns, ended_ns, lasts_ns};
  if (write(timeline, row, sizeof(row)) != sizeof(row)) std::abort();
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
  const int64_t ended_ns = NowNs();
  busy_ns += ended_ns - began_ns;
  Record(began_ns, ended_ns, lasts_ns.typed_data()[0]);
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
