#include "bytetape/data/batch.h"

namespace bytetape::data {

const Tensor& Batch::operator[](std::string_view name) const& {
  if (name == "x") return x;
  if (name == "y") return y;
  for (const auto& [known, tensor] : more)
    if (known == name) return tensor;
  std::string names = "x, y";
  for (const auto& [known, tensor] : more) names += ", " + known;
  fail<ValueError>("no tensor '", name, "' in a batch of ", names);
}
Tensor& Batch::operator[](std::string_view name) & { return const_cast<Tensor&>(std::as_const(*this)[name]); }
Tensor Batch::operator[](std::string_view name) && { return (*this)[name]; }

}  // namespace bytetape::data
