#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace bytetape {

/// Base of all exceptions that bytetape throws. what() is a message that the user can act on.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// A shape, dim or index does not fit the operation.
class ShapeError : public Error {
  using Error::Error;
};
/// The operation does not support the dtype, or two dtypes differ.
class DTypeError : public Error {
  using Error::Error;
};
/// Tensors are on different devices, or data is requested from a device that holds none.
class DeviceError : public Error {
  using Error::Error;
};
/// A value is outside its documented range, such as a probability of 2 or a negative stride.
class ValueError : public Error {
  using Error::Error;
};
/// A use of autograd would give a wrong gradient: a saved tensor was overwritten, or the graph was already freed.
class AutogradError : public Error {
  using Error::Error;
};
/// A step cannot be captured, because a replay would skip its work on the host.
class CaptureError : public Error {
  using Error::Error;
};
/// The device lacks this kernel.
class NotImplemented : public Error {
  using Error::Error;
};
/// Ranks of a group cannot go on together: one has failed, does not answer, or calls another collective.
class DistributedError : public Error {
  using Error::Error;
};
/// A file cannot be read, or has invalid content. The message says the path, what was expected and what was found.
class FileError : public Error {
  using Error::Error;
};

namespace detail {
/// Returns the running op and module, "matmul in module 'net.fc1'". Empty outside both.
std::string where();
template <class... Args>
std::string concat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}
}  // namespace detail

/// Throws E. The message has the running op, its module path, and args, streamed one after the other.
template <class E, class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Args&... args) {
  const std::string at = detail::where();
  throw E(at.empty() ? detail::concat(args...) : detail::concat(at, ": ", args...));
}

/// Calls fail<E>(args...) unless ok. The arguments are streamed on failure only.
template <class E = ShapeError, class... Args>
inline void check(bool ok, const Args&... args) {
  if (!ok) [[unlikely]]
    fail<E>(args...);
}

}  // namespace bytetape
