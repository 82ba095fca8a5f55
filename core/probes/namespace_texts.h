// A text below /proc/PID/net, of each network namespace that the job lives in.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "core/sampler/diffed_text.h"
#include "core/sampler/probe.h"

namespace reveal {

/// `Parsed`: a probe's own data about each text.
template <typename Parsed>
class NamespaceTexts {
 public:
  struct Place : Parsed {
    std::string instance;  // "" for the job's first namespace
    std::string folder;
    KernelFile file;
    DiffedText text;
  };

  /// Throws Unavailable(why) if it cannot be read; with "", it may come later.
  NamespaceTexts(const ProbeContext& context, std::string_view name, std::size_t expected_size, std::string_view why)
      : fs_(context.fs), namespaces_(*context.namespaces), name_(name), expected_size_(expected_size) {
    follow();
    if (!why.empty() && places_.front().file.read().empty()) throw Unavailable(std::string(why));
  }

  /// Reads them; false: all are to be parsed (DiffedText::update).
  [[nodiscard]] bool update() noexcept {
    follow();
    return update_all(places_);
  }

  /// Only grows.
  [[nodiscard]] std::deque<Place>& places() noexcept { return places_; }

 private:
  void follow() {
    const std::vector<NetNamespace>& spaces = namespaces_.list();
    for (std::size_t i = 0; i < spaces.size(); ++i) {
      if (i == places_.size()) places_.emplace_back().instance = spaces[i].name;
      const std::string& folder = spaces[i].folder;
      if (places_[i].folder == folder) continue;
      places_[i].folder = folder;
      places_[i].file = folder.empty() ? KernelFile() : fs_.open(folder + '/' + std::string(name_), expected_size_);
    }
  }

  KernelTree& fs_;
  const NetNamespaces& namespaces_;
  std::string_view name_;
  std::size_t expected_size_;
  std::deque<Place> places_;
};

}  // namespace reveal
