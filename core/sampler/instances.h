// The rows of things that come and go (core/sampler/lasting_instances.h) and all have the same numbers, as interfaces
// and disks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/sampler/diffed_text.h"
#include "core/sampler/lasting_instances.h"
#include "core/sampler/probe.h"

namespace reveal {

/// Newcomers share the rows of the instance "other": for counters the sum of their increases while they were seen, for
/// levels the sum over those that are there.
class Instances {
 public:
  struct Column {
    std::size_t family;
    std::int32_t metric;  // row in the family's table
    std::int64_t scale = 1;
  };

  /// Adds the families. `expected_later`: the trace reserves space for so many.
  Instances(const ProbeContext& context, std::span<const FamilyTable> tables, std::span<const Column> columns,
            std::size_t expected_later);

  /// Everything is missing until it is stored; then the texts are parsed, and end() is called.
  void begin();
  [[nodiscard]] LastingInstances::Member* see(std::string_view name) { return lasting_.see(name); }
  /// The numbers of one, in the order of the columns; there may be fewer. An instance that was never used gets no rows.
  void store(LastingInstances::Member& member, std::string_view name, DiffedText& text,
             std::span<const std::string_view> words);
  void end();
  /// Instead of these: nothing was read, and no instance is forgotten.
  void skip() noexcept;
  void commit() noexcept;

  /// Where rows are shared: how many came later, and where their numbers are.
  [[nodiscard]] std::string caveat(std::string_view things) const;

 private:
  /// `before`: the counters until now, if known.
  void add_rows(std::string_view instance, std::vector<std::int32_t>& first, std::int64_t before = kMissing);
  void share(LastingInstances::Member& member);
  [[nodiscard]] bool is_level(const Column& column) const noexcept;

  const TraceSink& sink_;
  std::span<const FamilyTable> tables_;
  std::span<const Column> columns_;
  LastingInstances lasting_;
  std::vector<Family*> families_;
  std::vector<std::vector<std::int32_t>> first_;  // by place and family
  std::vector<std::int64_t> numbers_;             // by column, of one line
  std::vector<std::int32_t> other_;               // by family; empty until an instance shares it
  std::vector<std::int64_t> shared_;              // by column
};

}  // namespace reveal
