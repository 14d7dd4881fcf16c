// This program's own malloc family and mmap: each records big calls and hands on to the C library's. The linker finds
// them before the C library's for every shared library too. Freed memory is the C library's own, so free() is left
// alone.
#include "tests/memory/interpose.h"

#include <execinfo.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* data, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace bytetape::test {
namespace {

std::atomic<std::size_t> threshold{0};  // 0: not recording
std::atomic<std::size_t> recorded{0};
std::array<RawCall, 256> calls;
thread_local bool inside = false;  // backtrace() itself may allocate

void record(const char* function, std::size_t bytes) {
  const std::size_t at_least = threshold.load(std::memory_order_relaxed);
  if (at_least == 0 || bytes < at_least || inside) return;
  inside = true;
  const std::size_t at = recorded.fetch_add(1);
  if (at < calls.size()) {
    RawCall& call = calls[at];
    call.function = function;
    call.bytes = bytes;
    call.frame_count = backtrace(call.frames.data(), static_cast<int>(call.frames.size()));
  }
  inside = false;
}

}  // namespace

void start_recording(std::size_t at_least) {
  void* warm[2];
  backtrace(warm, 2);  // loads its library now
  recorded = 0;
  threshold = at_least;
}

Recording stop_recording() {
  threshold = 0;
  const std::size_t seen = recorded;
  const std::size_t kept = std::min(seen, calls.size());
  return {calls.data(), kept, seen - kept};
}

}  // namespace bytetape::test

using bytetape::test::record;

extern "C" {

void* malloc(std::size_t bytes) {
  record("malloc", bytes);
  return __libc_malloc(bytes);
}

void* calloc(std::size_t count, std::size_t size) {
  record("calloc", count * size);
  return __libc_calloc(count, size);
}

void* realloc(void* data, std::size_t bytes) {
  record("realloc", bytes);
  return __libc_realloc(data, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  record("memalign", bytes);
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  record("aligned_alloc", bytes);
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** data, std::size_t alignment, std::size_t bytes) {
  record("posix_memalign", bytes);
  void* p = __libc_memalign(alignment, bytes);
  if (!p) return ENOMEM;
  *data = p;
  return 0;
}

void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  record("mmap", bytes);
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

void* mmap64(void* address, std::size_t bytes, int protection, int flags, int file, off64_t offset) {
  return mmap(address, bytes, protection, flags, file, offset);
}

}  // extern "C"
