#include "core/kernel_text/recording.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::string_view kMagic = "reveal recording 1";
constexpr std::int64_t kLargestText = 256 << 20;
constexpr std::size_t kLongestKey = 512;

const RecordedText kNeverRead{"", ENOENT};

}  // namespace

RecordingReader::RecordingReader(const std::string& path) : path_(path), stream_(path, std::ios::binary) {
  std::string line;
  if (!stream_) throw system_error(path, errno);
  if (!std::getline(stream_, line) || line != kMagic) {
    throw Error(path + ": not a recording (its first line is not \"" + std::string(kMagic) + "\")");
  }
  load_until_tick();
}

const RecordedText& RecordingReader::at(char kind, std::string_view path) const noexcept {
  char key[kLongestKey];
  if (path.size() + 1 > sizeof key) return kNeverRead;
  key[0] = kind;
  path.copy(key + 1, path.size());
  const auto found = texts_.find(std::string_view(key, path.size() + 1));
  return found == texts_.end() ? kNeverRead : found->second;
}

std::optional<TickTime> RecordingReader::next_tick() {
  // next_ is the tick of the last line that was read: its texts follow that line.
  const std::optional<TickTime> tick = next_;
  if (tick && !load_until_tick()) return std::nullopt;  // cut off in the middle of this tick
  return tick;
}

bool RecordingReader::load_until_tick() {
  next_.reset();
  std::string line;
  while (std::getline(stream_, line)) {
    std::string_view rest = line;
    const std::string_view kind = next_word(rest);
    const auto number = parse_int(next_word(rest));
    if (kind == "=") {
      const auto utc = parse_int(next_word(rest));
      if (number && utc) next_ = TickTime{*number, *utc};
      return next_.has_value();
    }
    const auto known = static_cast<std::int64_t>(by_number_.size());
    if (kind == "+" && number == known && rest.size() > 1) {
      by_number_.push_back(&texts_[std::string(rest.substr(1))]);
      continue;
    }
    const auto value = parse_int(next_word(rest));
    if (!number || *number < 0 || *number >= known || !value) {
      throw Error(path_ + ": broken recording at byte " + std::to_string(static_cast<std::int64_t>(stream_.tellg())) +
                  ": \"" + line.substr(0, 60) + "\"");
    }
    RecordedText& text = *by_number_[static_cast<std::size_t>(*number)];
    if (kind == "!") {
      text = {"", static_cast<int>(*value)};
    } else if (kind == "$" && *value >= 0 && *value <= kLargestText) {
      text.error = 0;
      text.text.resize(static_cast<std::size_t>(*value));
      stream_.read(text.text.data(), *value);
      if (stream_.gcount() != *value || stream_.get() != '\n') return false;
    } else {
      throw Error(path_ + ": broken recording: \"" + line.substr(0, 60) + "\"");
    }
  }
  return true;  // the last tick has no line after it
}

RecordingWriter::RecordingWriter(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw Error("cannot record to " + directory.string() + ": " + error.message());
  path_ = (directory / kRecordingFile).string();
  // A link of another user is not followed.
  const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0 && errno == EEXIST) throw Error(path_ + " exists already; choose another --record directory");
  if (file < 0) throw system_error(path_, errno);
  file_.reset(::fdopen(file, "w"));
  if (!file_) {
    ::close(file);
    throw system_error(path_, ENOMEM);
  }
  put(kMagic);
  put("\n");
}

void RecordingWriter::put(std::string_view text) noexcept {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) cut_off_ = true;
}

void RecordingWriter::note(char kind, std::string_view path, int error, std::string_view text) noexcept {
  key_.assign(1, kind);
  key_ += path;
  if (key_.size() >= kLongestKey || key_.find('\n') != std::string::npos) return;
  const std::size_t fingerprint =
      error != 0 ? static_cast<std::size_t>(error) : std::hash<std::string_view>{}(text) | 0x100000;
  auto found = known_.find(std::string_view(key_));
  if (found == known_.end()) {
    const std::size_t number = known_.size();
    found = known_.emplace(key_, Known{number, 0}).first;
    put("+ " + std::to_string(number) + ' ' + key_ + '\n');
  }
  Known& known = found->second;
  if (known.fingerprint == fingerprint) return;
  known.fingerprint = fingerprint;
  if (error != 0) {
    put("! " + std::to_string(known.number) + ' ' + std::to_string(error) + '\n');
  } else {
    put("$ " + std::to_string(known.number) + ' ' + std::to_string(text.size()) + '\n');
    put(text);
    put("\n");
  }
}

void RecordingWriter::mark_tick(TickTime time) {
  put("= " + std::to_string(time.monotonic_ns) + ' ' + std::to_string(time.utc_ns) + '\n');
  if (std::fflush(file_.get()) != 0) cut_off_ = true;
}

void RecordingWriter::finish() {
  const bool synced = std::fflush(file_.get()) == 0 && ::fsync(::fileno(file_.get())) == 0;
  if (std::fclose(file_.release()) != 0 || !synced || cut_off_)
    throw Error(path_ + " is cut off: it could not be written to its end (is the disk full?)");
}

}  // namespace reveal
