#include "postproc/telemetry/publish.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

int g_outputs = -1;  // a pipe, in a child that may write no files

}  // namespace

void send_outputs_to(int pipe) noexcept {
  g_outputs = pipe;
}

void write_output(const std::filesystem::path& path, std::string_view content, Output how) {
  if (g_outputs >= 0) {
    const std::string head = path.string() + '\n' + std::to_string(content.size()) + '\n';
    if (!write_all(g_outputs, head) || !write_all(g_outputs, content)) throw system_error(path.string(), errno);
    return;
  }
  if (how == Output::whole) {
    constexpr mode_t kForAll = 0644;
    publish_file(path.has_parent_path() ? path.parent_path() : ".", path.filename(), content, Synced::no, kForAll);
    return;
  }
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (out) out << content << std::flush;
  if (!out) throw system_error(path.string(), errno);
}

void write_outputs_from(int pipe, const std::vector<std::filesystem::path>& allowed, Output how) {
  constexpr std::size_t kMost = std::size_t{1} << 30;
  std::string received;
  char part[65536];
  for (ssize_t got = 1; got > 0 && received.size() < kMost;) {
    got = ::read(pipe, part, sizeof part);
    if (got > 0) received.append(part, static_cast<std::size_t>(got));
    if (got < 0 && errno == EINTR) got = 1;
  }
  std::string_view rest = received;
  for (std::string_view path, size; next_line(rest, path) && next_line(rest, size);) {
    const auto length = parse_int(size);
    if (!length || *length < 0 || static_cast<std::size_t>(*length) > rest.size()) return;  // it was cut off
    if (std::find(allowed.begin(), allowed.end(), std::filesystem::path(path)) == allowed.end()) return;
    write_output(path, rest.substr(0, static_cast<std::size_t>(*length)), how);
    rest.remove_prefix(static_cast<std::size_t>(*length));
  }
}

}  // namespace reveal
