// The evidence of the primary finding as a small picture, for readers that run no script: the channel over the job, its
// expected level dashed, the finding's intervals as bands. The picture has no text; the page around it has the labels.
#pragma once

#include <optional>
#include <string>

#include "postproc/report/report.h"

namespace reveal {

struct EvidencePicture {
  std::string png;
  int width = 0, height = 0;  // as shown; the file has twice as many points on each side
  std::string channel;        // "job.outsider_cpu/cpu1 on n01"
  std::string top, bottom;    // values at its edges
  std::string begin, end;     // times at its edges
  std::string expected;       // "0.004"; "" where none is known
  std::string band;           // "10:33:07 to 10:33:22"; "" where no interval is drawn
  std::string words;          // all of it in a sentence, for readers who see no picture
};

/// Nothing without a finding, or where no channel of its evidence is in the timeline.
[[nodiscard]] std::optional<EvidencePicture> evidence_picture(const Report& report);

}  // namespace reveal
