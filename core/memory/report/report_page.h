#pragma once
#include <string_view>

namespace bytetape::memory::report_page {

// Embedded at build time (cmake/embed_report.cmake) from core/memory/report/page/ and d3's package.

extern const std::string_view html;    ///< the page, with a line {{NAME}} for each of the other parts and for the data
extern const std::string_view style;   ///< part {{STYLE}}
extern const std::string_view script;  ///< part {{SCRIPT}}
extern const std::string_view d3;      ///< part {{D3}}; empty if d3 was not found

}  // namespace bytetape::memory::report_page
