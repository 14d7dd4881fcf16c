#pragma once
#include <string>
#include <vector>

#include "bytetape/core/dtype.h"
#include "bytetape/core/shape.h"

namespace bytetape::data {

/// A further tensor of an example, beside x and y: its name, and its shape and dtype without the batch dim.
struct Field {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
  /// Whether the field is an image (h, w) or (k, h, w) of x's size, such as a mask, that gets the crop and flip of x.
  /// Other fields stay as they are: boxes do not follow a flip. Default: false.
  bool moves_with_x = false;
};

/// The shapes and dtypes of an example, without the batch dim.
struct ExampleSpec {
  Shape x_shape;
  DType x_dtype = DType::f32;
  Shape y_shape;
  DType y_dtype = DType::i64;
  std::vector<Field> more = {};  ///< the tensors beside x and y, with different names
};

/// Throws ValueError if a name is empty, "x" or "y", or that of two fields.
void check_names(const std::vector<Field>& fields);
/// Returns true if examples of this shape are images (h, w) or (k, h, w) with the height and width of images x, which
/// are (h, w) or (c, h, w).
bool is_image_like(const Shape& shape, const Shape& x);

}  // namespace bytetape::data
