// The directory in which the ends of all jobs leave mails for the site's mailer ([mail] mailer_spool). It belongs to
// the account of the mailer; others may only make files in it (mode 3733), which get its group and which they cannot
// list.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/descriptor.h"
#include "postproc/mail/spooled_mail.h"

namespace reveal {

/// Leaves a mail there, whole or not at all. Throws Error, also where files of this user could be read by others or
/// deleted by them. Mails to the user and to administrators have different names: neither kind pushes out the other.
void leave_in_spool(const std::string& directory, std::string_view mail, Audience audience);

/// Throws Error with the reason why no mail can be left there.
void require_mail_spool(const std::string& directory);

struct SpoolEntry {
  std::string name;
  uid_t owner = 0;
  std::int64_t arrived_utc_ns = 0;  // by the clock of the file server; users cannot set it
  std::size_t place = 0;            // among the mails of its owner to the same audience
};

/// Files in the spool that are no mails, and the newest mails of a user with too many.
enum class OtherFiles : std::uint8_t { deleted, kept };

/// The same directory for the mailer, which owns it.
class MailSpool {
 public:
  /// Throws Error if it is not this account's, has another mode than a spool, or if others may delete files of it:
  /// everything in it is deleted.
  explicit MailSpool(const std::string& directory);

  /// False while another mailer, on any host, has its turn.
  [[nodiscard]] bool take_turn();
  /// The first mail of each user in the order of their arrival, then the second ones and so on, so that nobody waits
  /// for all mails of another user; at most kMostOfOwner of a user to one audience. Deletes everything else in the
  /// directory.
  [[nodiscard]] std::vector<SpoolEntry> entries(OtherFiles others);
  /// Opens a mail for reading. Throws Error if it is no longer the file that was listed.
  [[nodiscard]] Descriptor open(const SpoolEntry& entry) const;
  void remove(const std::string& name) const noexcept;

  [[nodiscard]] std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  /// A directory for the mailer's own records.
  [[nodiscard]] std::string state() const { return path_of("state"); }
  /// Number of things that entries() deleted or could not delete, since they were no mails or too many.
  [[nodiscard]] std::size_t refused() const noexcept { return refused_; }
  /// A line for each user with too many mails, or with something that cannot be deleted.
  [[nodiscard]] std::vector<std::string> problems() const;

  static constexpr std::size_t kMostOfOwner = 2000;

 private:
  struct Listed;  // what a call of entries() found
  [[nodiscard]] Listed list() const;
  bool refuse(const std::string& name) noexcept;

  std::string path_;
  Descriptor folder_, turn_;
  gid_t group_ = 0;
  std::size_t refused_ = 0;
  std::map<uid_t, std::size_t> too_many_, in_the_way_;
};

}  // namespace reveal
