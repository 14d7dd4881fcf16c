#pragma once
#include <cupti.h>

namespace bytetape::cuda {

// The functions of CUPTI that are used, without their prefix.
// clang-format off
#define BYTETAPE_CUPTI_FUNCTIONS(F) \
  F(GetVersion) \
  F(GetResultString) \
  F(Subscribe) \
  F(Unsubscribe) \
  F(EnableCallback) \
  F(GetCallbackName) \
  F(GetGraphNodeId) \
  F(ActivityRegisterCallbacks) \
  F(ActivityRegisterTimestampCallback) \
  F(ActivityEnable) \
  F(ActivityDisable) \
  F(ActivityFlushAll) \
  F(ActivityGetNextRecord)
// clang-format on

/// CUPTI, which is loaded on first use, so that programs start without it.
struct Cupti {
#define BYTETAPE_CUPTI_POINTER(name) decltype(&cupti##name) name = nullptr;
  BYTETAPE_CUPTI_FUNCTIONS(BYTETAPE_CUPTI_POINTER)
#undef BYTETAPE_CUPTI_POINTER
};

/// Returns CUPTI's functions.
/// Throws DeviceError if the library cannot be loaded or has another version than the build's header.
const Cupti& cupti();

/// Throws DeviceError, with CUPTI's message, if `status` is a failure. `what` completes "device times: cannot ...".
void check_cupti(CUptiResult status, const char* what);

}  // namespace bytetape::cuda
