#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bytetape/core/named_tensors.h"
#include "bytetape/nn/module.h"

/// Export of modules as ONNX models (https://onnx.ai), for inference in other programs.
namespace bytetape::onnx {

/// The options of save().
struct SaveOptions {
  /// Whether the model takes any batch size. The function then runs with three different sizes.
  bool dynamic_batch = true;
  /// The dim of each input that is the batch.
  std::int64_t batch_dim = 0;
  /// The names of inputs without a batch, such as a mask that all examples share. Their sizes are those of the example.
  std::vector<std::string> unbatched_inputs = {};
  /// Whether parameters and constants are in a second file, `path`.data. A model above 2 GB needs that.
  bool external_data = false;
  /// The names of the inputs of save(path, net, example). Default: "input".
  std::vector<std::string> input_names = {};
  /// The names of the results. Default: "output", or "output_0", "output_1" and so on.
  std::vector<std::string> output_names = {};
};

/// A function of tensors. It calls the module.
using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Saves a module as an ONNX model of opset 17.
/// Runs net(example), also with other batch sizes, in evaluation mode and without gradients, observes the ops, and
/// writes them as ONNX nodes. Parameters and buffers keep their names. Each file is replaced as a whole or not at all,
/// `path`.data before `path`.
///
///     onnx::save("net.onnx", net, zeros({1, 3, 224, 224}));
///
/// Constants that forward computes on the host from values, or from sizes other than the batch size, are those of the
/// example. The training mode of each module is restored.
/// Throws NotImplemented, with the reason and the module of each op, if an op cannot be exported, runs under Autocast,
/// depends on the batch size in a way that ONNX cannot express, or fails for another one. The same if the function
/// overwrites a tensor that outlives it, or if ONNX lacks an operator for the dtype of its inputs. For the latter, the
/// message has the first operator alone. Nothing is written then.
/// Throws DeviceError if a parameter, buffer or input has no data because it is on a meta device.
/// Throws ValueError if an input is undefined or has no dim `batch_dim`, or if all inputs are unbatched.
/// Throws ValueError if the function returns no tensor, or if names do not fit, are repeated, or are not UTF-8.
/// Throws FileError if a file cannot be written. Exceptions of the function pass through.
void save(const std::string& path, nn::Module& net, const Tensor& example, const SaveOptions& options = {});
/// Saves a function of several tensors, such as a step of a transformer with its cache. `net` is the module whose
/// parameters the function uses. `inputs` are examples, with the names that they have in the model.
///
///     onnx::save("decoder.onnx", net, [&](const auto& x) { return std::vector{net(x[0], x[1])}; },
///                {{"target", target}, {"memory", memory}});
void save(const std::string& path, nn::Module& net, const Function& function, const NamedTensors& inputs,
          const SaveOptions& options = {});

}  // namespace bytetape::onnx
