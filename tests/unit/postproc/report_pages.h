// Pages of reports, as tests look at them.
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/report/assets.h"

namespace reveal::tests {

/// The page without the embedded parts that are the same in every report.
inline std::string without_embedded(std::string page) {
  for (std::string_view asset :
       {assets::dygraphs_js(), assets::dygraphs_css(), assets::report_js(), assets::report_css()}) {
    asset = asset.substr(0, asset.rfind("sourceMappingURL"));
    asset = asset.substr(0, asset.find_last_not_of("\n/*# ") + 1);
    const std::size_t at = page.find(asset);
    if (at != std::string::npos) page.replace(at, asset.size(), "[embedded]");
  }
  const std::size_t glossary = page.find("<dl>", page.find("What the words mean"));
  if (glossary != std::string::npos) page.replace(glossary, page.find("</dl>", glossary) - glossary, "[embedded]");
  return page;
}

inline std::size_t occurrences(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace reveal::tests
