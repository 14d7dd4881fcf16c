#pragma once
#include <string_view>

namespace bytetape::memory::report_page {

// Embedded at build time (cmake/embed_report.cmake) from core/memory/report/page/ and d3's package.

extern const std::string_view html;    ///< with a line {{NAME}} for each of the others and for the data
extern const std::string_view style;   ///< {{STYLE}}
extern const std::string_view script;  ///< {{SCRIPT}}
extern const std::string_view d3;      ///< {{D3}}; empty where it was not found

}  // namespace bytetape::memory::report_page
