#include "bytetape/core/memory/report/utf8.h"

#include <nlohmann/json.hpp>

namespace bytetape::memory {

std::string utf8(const std::string& name) {
  using Json = nlohmann::json;
  return Json::parse(Json(name).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

}  // namespace bytetape::memory
