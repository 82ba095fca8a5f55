// The user's text behind `--reveal=`: "interval=1s,output=out/%j,probes=cpu+memory".
#pragma once

#include <string>
#include <string_view>

namespace reveal {

/// The value of `key`, "" if it is not there; the last one counts. A key without a value has the value "yes".
[[nodiscard]] std::string requested(std::string_view request, std::string_view key);

}  // namespace reveal
