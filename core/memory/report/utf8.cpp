#include "bytetape/core/memory/report/utf8.h"

#include "bytetape/core/memory/text/json.h"

namespace bytetape::memory {

std::string utf8(const std::string& name) { return Json::parse(json_text(name)).get<std::string>(); }

}  // namespace bytetape::memory
