#include "bytetape/data/example_spec.h"

#include <algorithm>

#include "bytetape/core/error.h"

namespace bytetape::data {

void check_names(const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    const std::string& name = field.name;
    check<ValueError>(!name.empty(), "a field has no name");
    check<ValueError>(name != "x" && name != "y", "a field is named '", name,
                      "', which is the name of the inputs or targets: choose another");
    const auto same = [&](const Field& other) { return other.name == name; };
    check<ValueError>(std::count_if(fields.begin(), fields.end(), same) == 1, "two fields are named '", name,
                      "': choose different names");
  }
}

bool is_image_like(const Shape& shape, const Shape& x) {
  const int n = shape.size(), m = x.size();
  return (n == 2 || n == 3) && m >= 2 && shape[n - 2] == x[m - 2] && shape[n - 1] == x[m - 1];
}

}  // namespace bytetape::data
