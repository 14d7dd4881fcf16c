#pragma once
#include <string>

namespace bytetape::cuda {

/// Notes that a collective of device number `index` was ended, so that its result is lost. The first reason counts.
/// Any thread may call it.
void note_lost(int index, const std::string& why);
/// Throws DistributedError, with the reason, if a result is lost. Call after the host has waited for the device.
void throw_if_lost(int index);

}  // namespace bytetape::cuda
