// Lines for administrators by rule and node, as a list inside files of JSON.
#pragma once

#include <string>
#include <vector>

#include "postproc/json/json_fields.h"
#include "postproc/mail/site_digest.h"

namespace reveal {

struct FaultLines {
  std::string rule, node;
  std::vector<std::string> lines;
};

void fields(auto& v, Visited<decltype(v), FaultLines>& of_fault) {
  v("rule", of_fault.rule);
  v("node", of_fault.node);
  v("lines", of_fault.lines);
}

[[nodiscard]] inline std::vector<FaultLines> list_of(const AdminLines& lines) {
  std::vector<FaultLines> list;
  for (const auto& [fault, texts] : lines) list.push_back({fault.first, fault.second, texts});
  return list;
}

[[nodiscard]] inline AdminLines admin_lines_of(const std::vector<FaultLines>& list) {
  AdminLines lines;
  for (const FaultLines& one : list) lines[{one.rule, one.node}] = one.lines;
  return lines;
}

}  // namespace reveal
