// One job.h5 from the traces of several nodes: `/nodes/NODE` is the root group of that node's trace.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reveal {

struct NodeFile {
  std::string node;
  std::filesystem::path path;  // a closed trace
};

enum class MergeForm {
  links,          // external links by file name: small, and moves together with the traces' directory
  self_contained  // everything copied: one file to hand on
};

/// Writes `to` by rename, over an older one. Throws Error.
void merge_traces(const std::vector<NodeFile>& traces, const std::filesystem::path& to, MergeForm form);

}  // namespace reveal
