#pragma once

/// \file
/// The functions of Interop (core/device/interop.h).
namespace bytetape::cuda {

void check_address(int index, const void* data);
void* stream_handle(int index, int stream);
bool is_recorded(int index, void* stream) noexcept;
void order_handles(int index, void* first, void* second) noexcept;
void wait_for_all(int index) noexcept;
int set_current(int index) noexcept;

}  // namespace bytetape::cuda
