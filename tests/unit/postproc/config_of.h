// The settings of a reveal.conf with this text.
#pragma once

#include "postproc/diagnose/analysis_settings.h"

namespace reveal {

inline Config config_of(std::string_view text) {
  Config config;
  config.read(text, "reveal.conf", ConfigOwner::site);
  return config;
}

}  // namespace reveal
