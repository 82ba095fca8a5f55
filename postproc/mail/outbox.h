// Hands one mail to the site's mail program, in bounded time: a mail server that does not answer must not hold a node.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

namespace reveal {

inline constexpr std::chrono::seconds kSendLimit{30};

/// Starts `program` (full path and arguments, no shell, almost no environment), feeds it `mail` and waits. Throws
/// Error, one line with the program's own words, when it cannot be started, fails, or takes longer than `limit`.
void send_mail(std::span<const std::string> program, std::string_view mail,
               std::chrono::milliseconds limit = kSendLimit);

}  // namespace reveal
