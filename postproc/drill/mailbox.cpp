#include "postproc/drill/mailbox.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr std::streamoff kEndOfMbox = 4 << 20;  // the newest mails of a file
constexpr std::size_t kHeadOfMail = 1 << 16;    // the headers of a mail in a directory
constexpr std::size_t kMostMails = 100;         // the newest ones of a directory
constexpr std::string_view kMessageIdHeader = "message-id:";

bool is_message_id(std::string_view line) {
  const auto same = [](char letter, char other) { return letter == other || letter + ('a' - 'A') == other; };
  return line.size() >= kMessageIdHeader.size() &&
         std::equal(kMessageIdHeader.begin(), kMessageIdHeader.end(), line.begin(),
                    [&](char of_header, char letter) { return same(letter, of_header); });
}

std::string end_of_mbox(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return {};
  const std::streamoff size = stream.tellg();
  stream.seekg(std::max<std::streamoff>(0, size - kEndOfMbox));
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string head_of_mail(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string head(kHeadOfMail, '\0');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return head;
}

/// The newest first.
std::vector<fs::path> mails_in(const fs::path& directory) {
  std::vector<std::pair<fs::file_time_type, fs::path>> mails;
  for (const char* folder : {"new", "cur"}) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory / folder, error)) {
      if (entry.is_regular_file(error)) mails.emplace_back(entry.last_write_time(error), entry.path());
    }
  }
  std::sort(mails.rbegin(), mails.rend());
  mails.resize(std::min(mails.size(), kMostMails));
  std::vector<fs::path> paths;
  paths.reserve(mails.size());
  for (const auto& [time, path] : mails) paths.push_back(path);
  return paths;
}

}  // namespace

std::string message_id_of(std::string_view mime) {
  for (std::string_view line; next_line(mime, line) && !line.empty();) {
    if (!is_message_id(line)) continue;
    line.remove_prefix(kMessageIdHeader.size());
    return std::string(next_word(line));
  }
  return {};
}

bool mailbox_holds(const fs::path& mailbox, std::string_view message_id) {
  if (message_id.empty()) return false;
  std::error_code error;
  if (fs::is_regular_file(mailbox, error)) return end_of_mbox(mailbox).find(message_id) != std::string::npos;
  const std::vector<fs::path> mails = mails_in(mailbox);
  return std::any_of(mails.begin(), mails.end(),
                     [&](const fs::path& mail) { return head_of_mail(mail).find(message_id) != std::string::npos; });
}

}  // namespace reveal
