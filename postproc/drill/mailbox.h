// The mailbox in which the mail of a drill must arrive: a file (mbox) or a directory (Maildir) of this user.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace reveal {

/// "<reveal.4711.user@example.org>" of a mail; "" if it has none.
[[nodiscard]] std::string message_id_of(std::string_view mime);

/// Whether the last mails in it contain this text. False also where it cannot be read.
[[nodiscard]] bool mailbox_holds(const std::filesystem::path& mailbox, std::string_view message_id);

}  // namespace reveal
