// A text that is read again with some bytes changed gives the same values as one that is read for the first time.
#include "core/sampler/diffed_text.h"

#include <map>
#include <string>

#include "hdf5schema/basics/text.h"
#include "target.h"

namespace reveal::fuzz::diffed_text {
namespace {

constexpr FamilyTable kTable = {"fuzz/numbers", Kind::gauge, Unit::count, Scope::node, Subsystem::cpu, "", "", {}};

/// Lines of a key and numbers; those in the fourth column are ignored.
class Reader {
 public:
  void take(std::string_view input) {
    if (text_.update(input)) return;
    family_.begin();
    std::string_view rest = text_.parse();
    std::string_view line;
    while (next_line(rest, line)) {
      const std::string key(cut_word(line));
      int column = 0;
      for (std::string_view word = cut_word(line); !word.empty(); word = cut_word(line), ++column)
        text_.set(word, family_, column == 3 ? Family::kNoChannel : channel(key + '.' + std::to_string(column)), 1000);
    }
  }

  [[nodiscard]] std::map<std::string, std::int64_t> values() const {
    std::map<std::string, std::int64_t> values;
    for (const auto& [name, channel] : channels_) {
      const std::int64_t value = family_.row()[static_cast<std::size_t>(channel)];
      if (value != kMissing) values[name] = value;
    }
    return values;
  }

 private:
  std::int32_t channel(const std::string& name) {
    const auto [at, added] = channels_.try_emplace(name, Family::kNoChannel);
    if (added) at->second = family_.add(name);
    return at->second;
  }

  TraceSink sink_;
  Family& family_ = sink_.add_family(kTable, std::chrono::seconds(1));
  DiffedText text_;
  std::map<std::string, std::int32_t> channels_;
};

/// TEXT, NUL, and the changes from tick to tick: place, character; a place beyond the text ends a tick.
void run(std::string_view input) {
  std::string text(input.substr(0, input.find('\0')));
  input.remove_prefix(std::min(text.size() + 1, input.size()));
  Reader reader;
  reader.take(text);
  for (int ticks = 0; ticks < 32 && !input.empty(); ++ticks) {
    for (; input.size() >= 2; input.remove_prefix(2)) {
      const auto place = static_cast<unsigned char>(input[0]);
      if (place >= text.size()) break;
      text[place] = input[1];
    }
    input.remove_prefix(std::min<std::size_t>(2, input.size()));
    reader.take(text);
    Reader fresh;
    fresh.take(text);
    require(reader.values() == fresh.values(), "a text that repeats says what it says");
  }
}

const RegisteredTarget kTarget{{"diffed_text", run}};

}  // namespace
}  // namespace reveal::fuzz::diffed_text
