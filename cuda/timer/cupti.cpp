#include "bytetape/cuda/timer/cupti.h"

#include <dlfcn.h>
#include <cstdint>

#include <string>

#include "bytetape/core/error.h"

namespace bytetape::cuda {
namespace {

// The build defines BYTETAPE_CUPTI_NAME, such as "libcupti.so.13", and BYTETAPE_CUPTI_FOLDER, the toolkit's.
constexpr const char* places[] = {BYTETAPE_CUPTI_NAME, BYTETAPE_CUPTI_FOLDER "/" BYTETAPE_CUPTI_NAME,
                                  BYTETAPE_CUPTI_FOLDER "/../extras/CUPTI/lib64/" BYTETAPE_CUPTI_NAME};

/// Versions 12 and 13 of the toolkit have different records.
bool has_records_of_this_build(std::uint32_t version) {
  constexpr std::uint32_t first_of_13 = 130000;
  return (version >= first_of_13) == (CUPTI_API_VERSION >= first_of_13);
}

/// Returns the library, which is never closed.
void* opened() {
  for (const char* place : places)
    if (void* library = dlopen(place, RTLD_NOW | RTLD_LOCAL)) return library;
  const char* reason = dlerror();
  fail<DeviceError>("device times: CUPTI cannot be loaded: put the folder of " BYTETAPE_CUPTI_NAME
                    ", which the CUDA toolkit has, into LD_LIBRARY_PATH (",
                    reason ? reason : "no reason given", ")");
}

Cupti loaded() {
  Cupti all;
  void* const library = opened();
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    check<DeviceError>(function != nullptr, "device times: " BYTETAPE_CUPTI_NAME " has no function ", name);
  };
#define BYTETAPE_CUPTI_FIND(name) find(all.name, "cupti" #name);
  BYTETAPE_CUPTI_FUNCTIONS(BYTETAPE_CUPTI_FIND)
#undef BYTETAPE_CUPTI_FIND
  std::uint32_t version = 0;
  check<DeviceError>(all.GetVersion(&version) == CUPTI_SUCCESS && has_records_of_this_build(version),
                     "device times: the CUPTI that was loaded has version ", version, ", and this build needs ",
                     CUPTI_API_VERSION);
  return all;
}

}  // namespace

const Cupti& cupti() {
  static const Cupti all = loaded();
  return all;
}

void check_cupti(CUptiResult status, const char* what) {
  if (status == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  if (cupti().GetResultString(status, &text) != CUPTI_SUCCESS) text = nullptr;
  const char* hint = status == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                         ? ": only one profiler can run in a process, such as Nsight Systems or PyTorch's profiler"
                         : "";
  fail<DeviceError>("device times: cannot ", what, ": CUPTI says ", text ? text : std::to_string(status), hint);
}

}  // namespace bytetape::cuda
