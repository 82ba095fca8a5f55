// Exports of several nodes go on without a trace that cannot be read, but not without their output.
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hdf5schema/basics/error.h"

namespace reveal {

class LeftOutTraces {
 public:
  explicit LeftOutTraces(std::size_t traces) : single_(traces == 1) {}

  /// Calls `read`. Its Error becomes a sentence; the one of a single trace is that of the export.
  template <typename Read>
  void take(const Read& read) {
    try {
      read();
    } catch (const Error& error) {
      if (single_ || gives_) throw;
      sentences_.emplace_back(error.what());
    }
  }
  /// Calls `write` within take(). Its Error ends the export: it is none of a trace, and what follows would not be
  /// written either.
  template <typename Write>
  void give(const Write& write) {
    gives_ = true;
    write();
    gives_ = false;
  }
  /// Called within take(): throws Error for a second trace of a node, whose numbers would count twice.
  void need_first_of(const std::string& node, const std::filesystem::path& trace) {
    if (!nodes_.insert(node).second) throw Error(trace.string() + ": left out, a second trace of " + node);
  }
  void add(std::string sentence) { sentences_.push_back(std::move(sentence)); }

  [[nodiscard]] bool single() const { return single_; }
  [[nodiscard]] const std::vector<std::string>& sentences() const { return sentences_; }
  /// The Error to throw where no trace could be read.
  [[nodiscard]] Error error() const { return Error(sentences_.empty() ? "no trace to export" : sentences_.front()); }

 private:
  bool single_;
  bool gives_ = false;
  std::set<std::string> nodes_;
  std::vector<std::string> sentences_;
};

}  // namespace reveal
