// Mails that could not be sent, kept beside the count of mails until they are: the job and its user's wishes, since the
// mail itself is composed again from the report. Small private files; any number of nodes may share the directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/clocks.h"
#include "postproc/mail/message.h"
#include "postproc/mail/recipients.h"
#include "postproc/mail/state_folder.h"

namespace reveal {

struct QueuedMail {
  std::string directory;  // directory of the job
  MailRequest request;
  std::string array;
  Audience audience = Audience::user;
  bool admins_notified = false;  // the administrators have theirs
  int tries = 1;
  std::int64_t first_utc_ns = 0, next_utc_ns = 0;
};

[[nodiscard]] std::string render_queued_mail(const QueuedMail& mail);
/// Throws Error.
[[nodiscard]] QueuedMail parse_queued_mail(const std::string& json);

inline constexpr std::int64_t kLongestMailPause = std::int64_t{6} * 3600 * kSecond;
inline constexpr std::int64_t kMailGivesUpAfter = std::int64_t{72} * 3600 * kSecond;
/// The pause before the next try of a mail that was tried so often: each is twice as long.
[[nodiscard]] std::int64_t pause_after(int tries) noexcept;
/// The time of the next try, later after each; nothing after three days.
[[nodiscard]] std::optional<std::int64_t> next_try(const QueuedMail& mail, std::int64_t now_utc_ns);

/// A line for the log about a mail that is not tried again.
[[nodiscard]] std::string given_up_line(const QueuedMail& mail, std::string_view why);

class MailQueue {
 public:
  explicit MailQueue(const std::string& directory) : folder_(directory) {}

  /// Replaces that of the same job and audience. Returns a line for the log about each mail that had to go for it.
  std::vector<std::string> keep(const QueuedMail& mail);
  /// It was sent.
  void remove(const std::string& directory, Audience audience) noexcept;

  /// A mail is about to be sent for the first time: recover() finds it if this process is killed before keep(),
  /// remove() or withdraw().
  void begin_first_try(const QueuedMail& mail, std::int64_t now_utc_ns);
  /// It is not sent after all.
  void withdraw(const std::string& directory, Audience audience) noexcept;

  /// All mails, the longest-waiting first; broken files are deleted, and those of another version of reveal left alone.
  [[nodiscard]] std::vector<QueuedMail> waiting();
  /// True for one caller only; then keep() or remove() ends the try.
  [[nodiscard]] bool begin_try(const QueuedMail& mail, std::int64_t now_utc_ns);
  /// Puts back the tries that a crash left, with the pause of one that failed: a mail that ends its reader each time
  /// must not stop the others. Of several callers, one only puts back each. Returns a line for the log about each mail
  /// that is given up.
  [[nodiscard]] std::vector<std::string> recover(std::int64_t now_utc_ns);

 private:
  [[nodiscard]] std::optional<std::string> text_of(const std::string& name) const;
  void set_time(const std::string& name, std::int64_t utc_ns);
  void remove_try(const std::string& directory, Audience audience) noexcept;
  /// Removes the longest-waiting of the others where there are too many. Returns a line for the log about each.
  std::vector<std::string> make_room(const QueuedMail& mail);
  /// The time at which this try began.
  [[nodiscard]] std::optional<std::int64_t> begun(const std::string& name) const;
  /// The new name of a try that began at that time, under which no other process takes it; "" where another one has it.
  [[nodiscard]] std::string take_over(const std::string& name, std::int64_t begun_utc_ns, std::int64_t now_utc_ns);
  std::vector<std::string> put_back(const std::string& mine, const QueuedMail& mail);

  StateFolder folder_;
};

}  // namespace reveal
