// A whole host, as a recording: every probe, the job's processes, its control groups and the snapshot read it. The
// fuzzer changes one text of it at a time and keeps the recording well-formed around it.
#include <unistd.h>

#include <fstream>

#include "core/kernel_text/kernel_tree.h"
#include "core/kernel_text/recording.h"
#include "core/sampler/sampler.h"
#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/error.h"
#include "target.h"

namespace reveal::fuzz::host {
namespace {

void run(std::string_view input) {
  static const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("reveal-fuzz-host-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / kRecordingFile, std::ios::binary | std::ios::trunc) << input;
  try {
    KernelTree fs(folder);
    TraceSink sink;
    Sampler sampler(fs, sink, {}, fs.upcoming_tick().value_or(TickTime{}));
    sampler.look_first();
    const Snapshot facts = take_snapshot(fs, sampler.host(), sampler.job());
    require(facts.size() < 100'000, "a snapshot has its limits");
    std::int64_t number = 0;
    while (const auto time = fs.next_tick()) sampler.sample({.time = *time, .number = number++});
    static_cast<void>(sampler.coverage());
  } catch (const Error&) {
  }
}

/// "$ NUMBER SIZE\nTEXT\n": where the text is.
struct Text {
  std::size_t head = 0;  // head of the line
  std::size_t begin = 0;
  std::size_t size = 0;
};

std::vector<Text> texts_of(std::string_view recording) {
  std::vector<Text> texts;
  std::size_t at = 0;
  while (at < recording.size()) {
    const std::size_t end = recording.find('\n', at);
    if (end == std::string_view::npos) break;
    if (recording[at] != '$') {
      at = end + 1;
      continue;
    }
    const std::size_t blank = recording.rfind(' ', end);
    const std::size_t size = std::strtoull(std::string(recording.substr(blank, end - blank)).c_str(), nullptr, 10);
    if (blank <= at || end + 1 + size > recording.size()) break;
    texts.push_back({at, end + 1, size});
    at = end + 1 + size + 1;
  }
  return texts;
}

void mutate(std::string& input, std::size_t most, unsigned seed, void (*change)(std::string&, std::size_t)) {
  const std::vector<Text> texts = texts_of(input);
  if (texts.empty() || seed % 16 == 0) return change(input, most);  // the recording's own parser, too
  const Text& text = texts[(seed / 16) % texts.size()];
  std::string piece = input.substr(text.begin, text.size);
  const std::size_t room = most > input.size() ? most - input.size() : 0;
  change(piece, piece.size() + std::min<std::size_t>(room, 4096));
  const std::string head = input.substr(text.head, input.rfind(' ', text.begin - 1) - text.head);
  input = input.substr(0, text.head) + head + ' ' + std::to_string(piece.size()) + '\n' + piece +
          input.substr(text.begin + text.size);
}

const RegisteredTarget kTarget{{"host", run, mutate}};

}  // namespace
}  // namespace reveal::fuzz::host
