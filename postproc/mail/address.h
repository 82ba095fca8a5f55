// Mail addresses as reveal accepts them: much less than RFC 5321 allows, so that nothing in one can mean something to
// a header, a shell, a file name or a mail program's command line.
#pragma once

#include <string>
#include <string_view>

namespace reveal {

/// "ada", "ada.l+jobs@example.org": letters, digits and . _ + - before the '@', a host name behind it.
[[nodiscard]] bool is_mail_address(std::string_view text) noexcept;

/// The part before the '@', or a user's name.
[[nodiscard]] bool is_mail_user(std::string_view text) noexcept;

/// Labels of letters, digits and inner '-', joined by dots: "example.org", "localhost".
[[nodiscard]] bool is_mail_domain(std::string_view text) noexcept;

/// The part behind the '@'; empty for a user of this machine.
[[nodiscard]] std::string_view domain_of(std::string_view address) noexcept;

/// A name without domain gets the site's, if there is one.
[[nodiscard]] std::string qualified(std::string_view address, std::string_view domain);

/// Compares domains without case; the part before the '@' may differ by case.
[[nodiscard]] bool same_address(std::string_view a, std::string_view b) noexcept;
[[nodiscard]] bool same_domain(std::string_view a, std::string_view b) noexcept;

}  // namespace reveal
