// A MIME message, written by GMime: headers and parts in lines that mail servers take, all of them ASCII.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using GMimeMessage = struct _GMimeMessage;  // NOLINT(bugprone-reserved-identifier)

namespace reveal {

/// A file in a mail.
struct MimeFile {
  std::string type;  // "image/png"
  std::string content;
  std::string name;  // shown to the reader, who saves it
  std::string id;    // by which the HTML beside it shows it; "" where it is attached
};

struct MimeBody {
  std::string text;
  std::string html;                 // the same for readers that show it; "" where there is none
  std::optional<MimeFile> picture;  // inside the HTML
  std::vector<MimeFile> attached;
};

class MimeMessage {
 public:
  MimeMessage();
  ~MimeMessage();
  MimeMessage(const MimeMessage&) = delete;
  MimeMessage& operator=(const MimeMessage&) = delete;

  void from(const char* name, const std::string& address);
  void to(const std::string& address);
  void reply_to(const std::string& address);
  void subject(const std::string& line);
  void date(std::int64_t utc_ns);
  void id(const std::string& id);
  /// `value` is one line.
  void header(const char* name, const std::string& value);
  /// A header whose value is one word, such as an address in the web: readers take it as it is written.
  void unfolded_header(const char* name, const std::string& word);
  /// The whole mail. The same `id` and body give the same text.
  [[nodiscard]] std::string with(const MimeBody& body, std::string_view id);

 private:
  GMimeMessage* message_;
};

}  // namespace reveal
