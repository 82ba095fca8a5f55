// A job among the processes of a host made of files, one tick after the other.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "core/job/job.h"
#include "test_host.h"

namespace reveal {

inline constexpr std::int64_t kTenth = 100'000'000;

class JobOnHost : public testing::Test {
 protected:
  void start(const JobSource& source, Job::Count count = Job::Count::yes) {
    fs_ = std::make_unique<KernelTree>(host_.root());
    fs_->limit_kept_files(0);  // an open plain file outlives its removal
    machine_ = Host::look(*fs_);
    job_ = std::make_unique<Job>(*fs_, machine_, source, kCollector);
    job_->update({now_ += kTenth, 0}, count);
  }
  void step(int count = 1) {
    for (int i = 0; i < count; ++i) job_->update({now_ += kTenth, 0});
  }

  static constexpr int kCollector = 999;
  TestHost host_;
  std::unique_ptr<KernelTree> fs_;
  Host machine_;
  std::unique_ptr<Job> job_;
  std::int64_t now_ = 0;
};

}  // namespace reveal
