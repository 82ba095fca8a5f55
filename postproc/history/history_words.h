// Dates and configuration facts as the sentences about earlier runs name them.
#pragma once

#include <string>

#include "postproc/history/history.h"

namespace reveal {

/// "cpu.governor is powersave, was performance"
[[nodiscard]] std::string fact_words(const HistoryChange& change);
/// HistoryComparison::sentence from all its other fields.
[[nodiscard]] std::string sentence_of(const HistoryComparison& history);

}  // namespace reveal
